// Command image creates the container images of one static program, one image per platform. An
// image contains only the program, and the programs that follow it in the argument. It has no base
// image, so neither a registry nor Docker is needed.
//
//	image -o dist/images -version v0.1.0 linux/amd64=PROGRAM[,OTHER] linux/arm64=PROGRAM[,OTHER]
//
// It writes dist/images/PROGRAM, an OCI layout with an index of all platforms, which crane or
// skopeo can push. It also writes dist/images/PROGRAM_linux_amd64.tar (and so on), which docker
// load can read.
package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is a user ID and a group ID that no user of the image has. They are numbers, so that
// Kubernetes can check that the user is not root.
const user = "65532:65532"

func main() {
	var (
		out     = flag.String("o", "", "the directory to write to")
		version = flag.String("version", "", "the images' version")
		created = flag.Int64("created", 0, "when the images were made, in seconds since 1970")
	)
	flag.Parse()
	if err := write(*out, *version, time.Unix(*created, 0).UTC(), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(dir, version string, created time.Time, programs []string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	program := ""
	for _, arg := range programs {
		of, list, ok := strings.Cut(arg, "=")
		platform, err := v1.ParsePlatform(of)
		if !ok || err != nil {
			return fmt.Errorf("%q is not PLATFORM=PROGRAM[,OTHER…]: %w", arg, err)
		}
		files := strings.Split(list, ",")
		program = filepath.Base(files[0])
		img, err := image(files, platform, version, created)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
		tag, err := name.NewTag(program + ":" + version)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, program+"_"+strings.ReplaceAll(of, "/", "_")+".tar")
		if err := tarball.WriteToFile(path, tag, img); err != nil {
			return err
		}
	}
	if program == "" {
		return errors.New("no PLATFORM=PROGRAM is given")
	}
	whole, err := layout.Write(filepath.Join(dir, program), empty.Index)
	if err != nil {
		return err
	}
	annotations := map[string]string{"org.opencontainers.image.ref.name": version}
	if err := whole.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", program, digest)
	return nil
}

// image returns an image for a platform. It contains all files, and runs the first.
func image(files []string, platform *v1.Platform, version string, created time.Time) (v1.Image, error) {
	entrypoint := "/" + filepath.Base(files[0])
	layer, err := layer(files, created)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: created}
	config.Config = v1.Config{
		Entrypoint: []string{entrypoint},
		User:       user,
		Labels: map[string]string{
			"org.opencontainers.image.source":   "https://github.com/weirproject/weir",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  version,
		},
	}
	return mutate.ConfigFile(img, config)
}

// static returns an error if a program is linked dynamically. Such a program needs a loader, which
// the image does not contain.
func static(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("linked dynamically; build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// layer returns a layer that contains the programs in its root directory.
func layer(files []string, created time.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, file := range files {
		program, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := static(program); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: filepath.Base(file), Mode: 0o555, Size: int64(len(program)), ModTime: created,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(program); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}
