package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// migration plans the changes that make the informers of a program Weir's informers: those of
// package clientgo, and those of package controllerruntime in caches of controller-runtime. It
// resolves identifiers, but reads no imported package. So it can change a module that does not
// build.
type migration struct {
	fset      *token.FileSet
	files     []*sourceFile
	decisions []migrationDecision
	first     *sourceCall   // the first changed call whose rule has wrap, or nil
	sinks     []*sourceCall // the calls that create clients
	// manager is the first call that creates a manager of controller-runtime, or nil. options is true
	// if the program has a literal of the manager's options.
	manager *sourceCall
	options bool
	// types are the edits that replace newTypes. They apply if retype is true.
	types  []func()
	retype bool
}

// migrationDecision is a place that migrate leaves to people, and the reason.
type migrationDecision struct {
	at   token.Position
	text string
}

// sourceCall is a call of a function of another package.
type sourceCall struct {
	*ast.CallExpr
	file       *sourceFile
	path, name string
	around     []ast.Node // the nodes around the call, outermost first
}

// newMigration plans the changes of the packages in the directories that the patterns name.
func newMigration(patterns []string) (*migration, error) {
	m := &migration{fset: token.NewFileSet()}
	read := map[string]bool{}
	for _, pattern := range patterns {
		files, err := readSource(m.fset, pattern)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if !read[f.path] {
				m.files, read[f.path] = append(m.files, f), true
			}
		}
	}
	for _, f := range m.files {
		m.plan(f)
	}
	for _, replace := range m.types {
		if m.retype {
			replace()
		}
	}
	if m.first != nil {
		m.wrapConfigs()
	}
	if c := m.manager; c != nil && !m.options && !strings.Contains(c.file.text(c.around[1]), "NewCache") {
		m.decide(c, "set NewCache: controllerruntime.NewCache() in the options of this manager")
	}
	slices.SortStableFunc(m.decisions, func(a, b migrationDecision) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line))
	})
	return m, nil
}

func (m *migration) decide(n ast.Node, text string) {
	m.decisions = append(m.decisions, migrationDecision{m.fset.Position(n.Pos()), text})
}

// plan plans the changes of a file, except those that depend on other files.
func (m *migration) plan(f *sourceFile) {
	for _, spec := range f.syntax.Imports {
		if spec.Name != nil && spec.Name.Name == "." && strings.HasPrefix(spec.Path.Value, `"`+clientGo) {
			m.decide(spec, "dot import: give the package a name and run migrate again")
		}
	}
	ast.PreorderStack(f.syntax, nil, func(n ast.Node, around []ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			path, name := f.qualified(n)
			if call, ok := around[len(around)-1].(*ast.CallExpr); ok && call.Fun == n {
				break
			}
			if _, ok := migrationRuleOf(path, name); ok {
				m.decide(n, name+" is not called here: replace this value if the type of Weir's function fits")
			}
			if to := newTypes[name]; path == cachePath && to != "" && !f.inErrorHandler(around) {
				m.types = append(m.types, func() { f.replace(n, path, f.weirs(clientgoPath, to)) })
			}
		case *ast.CompositeLit:
			if path, name := f.qualified(n.Type); name == "Options" && !ast.IsGenerated(f.syntax) && (path == controllerRuntime || path == controllerRuntime+"/pkg/manager") {
				m.setNewCache(f, n, around)
			}
		case *ast.CallExpr:
			c := &sourceCall{CallExpr: n, file: f, around: slices.Clone(around)}
			c.path, c.name = f.qualified(n.Fun)
			rule, ok := migrationRuleOf(c.path, c.name)
			switch {
			case len(n.Args) == 0:
			case c.path == clientgoPath && strings.HasPrefix(c.name, "Adopt"):
				return false
			case c.path == clientgoPath && c.name == "Wrap":
				c.wrapped()
			case c.path+"."+c.name == controllerRuntime+".NewManager", c.path+"."+c.name == controllerRuntime+"/pkg/manager.New":
				m.manager = cmp.Or(m.manager, c)
			case ast.IsGenerated(f.syntax):
				if ok && !strings.Contains(filepath.ToSlash(f.path), "informers/externalversions/") {
					m.decide(n, "generated file: change its generator")
				}
			case ok:
				m.change(c, rule)
			case createsClient(c.path, c.name):
				m.sinks = append(m.sinks, c)
			}
		}
		return true
	})
}

// inErrorHandler reports whether the nodes around a type are those of a parameter of a watch error
// handler, which receives client-go's Reflector.
func (f *sourceFile) inErrorHandler(around []ast.Node) bool {
	return slices.ContainsFunc(around, func(n ast.Node) bool {
		t, ok := n.(*ast.FuncType)
		return ok && strings.HasSuffix(f.text(t.Params), "error)")
	})
}

// change changes a call according to a rule.
func (m *migration) change(c *sourceCall, rule migrationRule) {
	f, last := c.file, c.Args[len(c.Args)-1]
	options, ok := c.options()
	switch {
	case strings.Contains(strings.ToLower(f.text(c.Args[0])), "fake"), rule.action == passResult && c.adopted():
		return // fake clients need no change
	case rule.action == reportCall:
		m.decide(c, c.name+": "+rule.to)
		return
	case rule.action == setClusterCache:
		if !strings.Contains(f.text(c.around[1]), "NewCache") {
			f.edit(last.End(), last.End(), fmt.Sprintf(", func(o *%sOptions) { o.NewCache = %s }", strings.TrimSuffix(f.text(c.Fun), "New"), f.weirs(controllerruntimePath, rule.to)))
		}
		return
	case rule.action == replaceCache:
		f.replace(c.Fun, c.path, f.weirs(controllerruntimePath, rule.to))
		return
	case rule.action == replaceFactory && !ok:
		rule.to = "AdoptFactory"
		fallthrough
	case rule.action == passResult:
		if rule.to == "AdoptFactory" && slices.ContainsFunc(m.files, (*sourceFile).callsInformerFor) {
			m.decide(c, "AdoptFactory ignores a constructor that InformerFor receives later: if InformerFor is called on this factory, see AdoptFactory's documentation")
		}
		f.edit(c.Pos(), c.Pos(), f.weirs(clientgoPath, rule.to)+"(")
		f.edit(c.End(), c.End(), ")")
	case rule.action == replaceFactory:
		for _, option := range options {
			f.edit(option.Pos(), option.Sel.Pos(), f.weirs(clientgoPath, ""))
		}
		fallthrough
	default:
		f.replace(c.Fun, c.path, f.weirs(clientgoPath, rule.to))
	}
	m.retype = m.retype || strings.Contains(c.name, "Reflector") || strings.Contains(c.name, "FIFO")
	if rule.wrap {
		m.first = cmp.Or(m.first, c)
	}
}

// options returns the functions that create the options of a factory. ok is false if migrate cannot
// replace them.
func (c *sourceCall) options() (options []*ast.SelectorExpr, ok bool) {
	for _, arg := range c.Args[min(2, len(c.Args)):] {
		call, ok := arg.(*ast.CallExpr)
		if !ok {
			return nil, false
		}
		if path, name := c.file.qualified(call.Fun); path != c.path || !factoryOption.MatchString(name) {
			return nil, false
		}
		options = append(options, call.Fun.(*ast.SelectorExpr))
	}
	return options, true
}

func (f *sourceFile) callsInformerFor() bool {
	return strings.Contains(string(f.source), ".InformerFor(") && !ast.IsGenerated(f.syntax)
}

// adopted reports whether the call creates the informer of a function that the program passes to a
// factory's InformerFor. The factory adopts it.
func (c *sourceCall) adopted() bool {
	return c.file.callsInformerFor() &&
		slices.ContainsFunc(c.around, func(n ast.Node) bool { return newInformerFunc.MatchString(c.file.text(n)) })
}

// setNewCache sets NewCache in the options of a controller-runtime manager.
func (m *migration) setNewCache(f *sourceFile, options *ast.CompositeLit, around []ast.Node) {
	m.options = true
	if strings.Contains(f.text(around[1]), "NewCache") {
		if !strings.Contains(string(f.source), controllerruntimePath) {
			m.decide(options, "replace the function in NewCache by controllerruntime.NewCache(), and move its options to cache.Options")
		}
		return
	}
	p, text := options.Rbrace, "NewCache: "+f.weirs(controllerruntimePath, "NewCache()")
	if len(options.Elts) > 0 {
		p, text = options.Elts[0].Pos(), text+", "
		if f.fset.Position(p).Line > f.fset.Position(options.Lbrace).Line {
			text += "\n"
		}
	}
	f.edit(p, p, text)
}

// wrapConfigs makes all clients capture responses: it passes each config to clientgo.Wrap where the
// first client is created from it.
func (m *migration) wrapConfigs() {
	created := false
	for _, c := range m.sinks {
		withClient := func(other *sourceCall) bool { return other.file == c.file && other.name == "NewForConfigAndClient" }
		if c.name == "NewForConfigAndClient" || c.name == "HTTPClientFor" && !slices.ContainsFunc(m.sinks, withClient) {
			continue
		}
		created = true
		config := c.config()
		if !c.wrapped() {
			c.file.edit(config.Pos(), config.Pos(), c.file.weirs(clientgoPath, "Wrap("))
			c.file.edit(config.End(), config.End(), ")")
		}
	}
	if !created {
		m.decide(m.first, "these packages create no client for this informer: pass the config to clientgo.Wrap before the client is created")
	}
}

// config returns the config from which the call creates a client. If the argument is a copy, it
// returns the original.
func (c *sourceCall) config() ast.Expr {
	config := c.Args[0]
	for {
		call, ok := config.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return config
		}
		switch path, name := c.file.qualified(call.Fun); path + "." + name {
		case restPath + ".AddUserAgent", restPath + ".CopyConfig", clientgoPath + ".Wrap":
			config = call.Args[0]
		default:
			return config
		}
	}
}

// wrapped reports whether an earlier call of wrapped had the same config, in the same block or in a
// block around it.
func (c *sourceCall) wrapped() bool {
	block := 0
	for i, n := range c.around {
		switch n.(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
			block = i
		}
		if c.file.wrapped[wrappedConfig{n, c.file.text(c.config())}] {
			return true
		}
	}
	c.file.wrapped[wrappedConfig{c.around[block], c.file.text(c.config())}] = true
	return false
}
