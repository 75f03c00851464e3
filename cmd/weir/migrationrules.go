package main

import (
	"regexp"
	"strings"
)

// Import paths of Weir, client-go and controller-runtime.
const (
	clientgoPath          = "github.com/weirproject/weir/clientgo"
	controllerruntimePath = "github.com/weirproject/weir/controllerruntime"
	clientGo              = "k8s.io/client-go/"
	cachePath             = clientGo + "tools/cache"
	restPath              = clientGo + "rest"
	controllerRuntime     = "sigs.k8s.io/controller-runtime"
)

// migrationAction is what migrate does with a call of a function.
type migrationAction int

const (
	// replaceFunction replaces the function by one that accepts the same arguments.
	replaceFunction migrationAction = iota
	// replaceFactory also replaces the functions that create the options, from the third argument on.
	// If migrate cannot replace them, it passes the factory to AdoptFactory.
	replaceFactory
	// passResult passes the result to a function.
	passResult
	// setClusterCache makes a cluster of controller-runtime use NewCache of package controllerruntime,
	// and replaceCache replaces a cache.
	setClusterCache
	replaceCache
	// reportCall leaves the change to people.
	reportCall
)

// migrationRule states what migrate does with a call of a function.
type migrationRule struct {
	action migrationAction
	to     string // the function of Weir's package; for reportCall, what people must do
	wrap   bool   // the config of the informers' client must be passed to clientgo.Wrap
}

// migrationRules are the rules of client-go's and controller-runtime's functions, by import path
// and name. docs/howto/migrating.md has the same table.
var migrationRules = map[string]migrationRule{
	clientGo + "informers.NewSharedInformerFactory":                              {action: replaceFunction, to: "NewSharedInformerFactory"},
	clientGo + "informers.NewSharedInformerFactoryWithOptions":                   {action: replaceFactory, to: "NewSharedInformerFactoryWithOptions"},
	clientGo + "informers.NewFilteredSharedInformerFactory":                      {action: replaceFunction, to: "NewFilteredSharedInformerFactory"},
	clientGo + "dynamic/dynamicinformer.NewDynamicSharedInformerFactory":         {action: replaceFunction, to: "NewDynamicSharedInformerFactory"},
	clientGo + "dynamic/dynamicinformer.NewFilteredDynamicSharedInformerFactory": {action: replaceFunction, to: "NewFilteredDynamicSharedInformerFactory"},
	clientGo + "dynamic/dynamicinformer.NewFilteredDynamicInformer":              {action: reportCall, to: "pass its Informer() to clientgo.Adopt, and create its lister from the indexer of Adopt's result"},
	clientGo + "metadata/metadatainformer.NewSharedInformerFactory":              {action: replaceFunction, to: "NewMetadataSharedInformerFactory"},
	clientGo + "metadata/metadatainformer.NewSharedInformerFactoryWithOptions":   {action: replaceFactory, to: "NewMetadataSharedInformerFactory"},
	clientGo + "metadata/metadatainformer.NewFilteredSharedInformerFactory":      {action: replaceFunction, to: "NewFilteredMetadataSharedInformerFactory"},
	clientGo + "metadata/metadatainformer.NewFilteredMetadataInformer":           {action: reportCall, to: "use clientgo.NewMetadataSharedInformerFactory"},
	cachePath + ".NewSharedIndexInformerWithOptions":                             {action: passResult, to: "Adopt", wrap: true},
	controllerRuntime + "/pkg/cluster.New":                                       {action: setClusterCache, to: "NewCache()"},
	controllerRuntime + "/pkg/cache.New":                                         {action: replaceCache, to: "NewCache()"},
}

// newTypes are the types of package cache that the functions of package clientgo do not return, and
// the types that they return instead.
var newTypes = map[string]string{"Reflector": "Reflector", "DeltaFIFO": "DeltaFIFO", "RealFIFO": "DeltaFIFO"}

var (
	sameInCache       = regexp.MustCompile(`^New((Shared|SharedIndex|Indexer|Transforming|TransformingIndexer)?Informer|InformerWithOptions|(Named)?Reflector|ReflectorWithOptions|NamespaceKeyedIndexerAndReflector|DeltaFIFO(WithOptions)?|RealFIFO)?$`)
	generatedFactory  = regexp.MustCompile(`^New(Filtered)?SharedInformerFactory(WithOptions)?$`)
	generatedInformer = regexp.MustCompile(`^New(Typed)?(Filtered)?\w+Informer(WithOptions)?$`)
	newInformerFunc   = regexp.MustCompile(`^func\b[^{]*\btime\.Duration\) \w+\.SharedIndexInformer \{`)
	factoryOption     = regexp.MustCompile(`^With(Namespace|TweakListOptions|Transform|CustomResyncConfig|InformerName)$`)
	newForConfig      = regexp.MustCompile(`^NewForConfig(OrDie|AndClient)?$`)
	restClientFor     = regexp.MustCompile(`^(HTTP|REST|UnversionedREST)ClientFor$`)
)

// migrationRuleOf returns the rule of a function, and whether there is one.
func migrationRuleOf(path, name string) (migrationRule, bool) {
	if rule, ok := migrationRules[path+"."+name]; ok {
		return rule, true
	}
	if path == cachePath && sameInCache.MatchString(name) {
		return migrationRule{action: replaceFunction, to: name, wrap: true}, true
	}
	_, group, generated := strings.Cut(path, "/informers/externalversions")
	if !generated {
		group, generated = strings.CutPrefix(path, clientGo+"informers/")
	}
	typed := strings.HasPrefix(name, "NewTyped")
	switch {
	case generated && group == "" && generatedFactory.MatchString(name):
		return migrationRule{action: passResult, to: "AdoptFactory"}, true
	case !generated || group == "" || !generatedInformer.MatchString(name):
		return migrationRule{}, false
	case typed:
		return migrationRule{action: reportCall, to: "call the function without Typed and pass its result to clientgo.Adopt"}, true
	}
	return migrationRule{action: passResult, to: "Adopt", wrap: true}, true
}

// createsClient reports whether a function creates a client from the config in its first argument.
func createsClient(path, name string) bool {
	switch path {
	case restPath:
		return restClientFor.MatchString(name)
	case clientGo + "kubernetes", clientGo + "dynamic", clientGo + "metadata":
		return newForConfig.MatchString(name)
	}
	return strings.Contains(path, "/clientset/") && newForConfig.MatchString(name)
}
