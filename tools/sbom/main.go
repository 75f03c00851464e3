// Command sbom writes the software bill of materials of Go programs, as CycloneDX JSON. The bill
// lists the modules that the linker has recorded in the program.
//
//	sbom -version v0.1.0 PROGRAM ...
//
// It writes PROGRAM.cdx.json next to each PROGRAM.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "the version of the program's own modules")
	flag.Parse()
	for _, program := range flag.Args() {
		if err := write(program, *version); err != nil {
			fmt.Fprintln(os.Stderr, "sbom:", err)
			os.Exit(1)
		}
	}
}

func write(program, version string) (err error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	f, err := os.Create(program + ".cdx.json")
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom(info, version))
}

// bom returns the bill of materials of the program that info describes. Weir's own modules get the
// given version.
func bom(info *buildinfo.BuildInfo, version string) *cdx.BOM {
	main := component(&info.Main, version)
	main.Type, main.Name = cdx.ComponentTypeApplication, path.Base(info.Path)
	components := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		BOMRef: "pkg:golang/std@" + info.GoVersion, PackageURL: "pkg:golang/std@" + info.GoVersion,
	}}
	for _, m := range info.Deps {
		components = append(components, component(m, version))
	}
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bom
}

func component(m *debug.Module, version string) cdx.Component {
	if m.Replace != nil && !strings.HasPrefix(m.Replace.Path, ".") {
		m = m.Replace
	}
	at := m.Version
	if at == "" || at == "(devel)" || at == "v0.0.0" || strings.HasPrefix(m.Path, "github.com/weirproject/weir") {
		at = version
	}
	purl := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(at, "+", "%2B")
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: at, BOMRef: purl, PackageURL: purl}
	// The sum is a SHA-256 of the module's file names and contents.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}
