// Command kube-objects fills objects of built-in kinds with random values, using the fuzzers with
// which Kubernetes tests its own conversions. It reads a request from its standard input, and
// prints one object per line, encoded as kube-apiserver writes it into etcd.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/persistentvolumeclaim"
	kubetesting "k8s.io/kubernetes/pkg/api/testing"
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
)

// request describes the wanted objects.
type request struct {
	Seed  int64
	Kinds []kind
}

// kind describes the wanted objects of one kind. The objects are printed in the first version, and
// can be converted to all versions.
type kind struct {
	Group, Kind string
	Versions    []string
	Names       []string // one name for each object
	Namespace   string   // empty: cluster-scoped
}

// object is one of the objects, with its indexes in the request.
type object struct {
	Kind, Name int
	Value      []byte // as in etcd
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kube-objects:", err)
		os.Exit(1)
	}
}

func run() error {
	var req request
	if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	lines := json.NewEncoder(out)
	filler := fuzzer.FuzzerFor(kubetesting.FuzzerFuncs, rand.NewSource(req.Seed), legacyscheme.Codecs).NumElements(0, 2)
	for k := range req.Kinds {
		for n := range req.Kinds[k].Names {
			value, err := req.Kinds[k].fill(filler, n)
			if err != nil {
				return err
			}
			if err := lines.Encode(object{k, n, value}); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// attempts bounds how many random values are tried for one object: occasionally a value cannot be
// converted.
const attempts = 100

// filler is the interface of a randfill.Filler.
type filler interface{ Fill(value any) }

// fill creates the n-th object of a kind.
func (k *kind) fill(f filler, n int) (value []byte, err error) {
	for range attempts {
		internal, err := legacyscheme.Scheme.New(schema.GroupVersionKind{Group: k.Group, Version: runtime.APIVersionInternal, Kind: k.Kind})
		if err != nil {
			return nil, err
		}
		f.Fill(internal)
		m, err := meta.Accessor(internal)
		if err != nil {
			return nil, err
		}
		m.SetName(k.Names[n])
		m.SetNamespace(k.Namespace)
		m.SetUID(k.uid(n))
		m.SetResourceVersion("")
		complete(internal)
		if value, err = k.encode(internal); err == nil {
			return value, nil
		}
		fmt.Fprintf(os.Stderr, "kube-objects: another %s: %v\n", k.Kind, err)
	}
	return nil, fmt.Errorf("%s: no value can be converted", k.Kind)
}

// complete sets fields that kube-apiserver sets when it reads objects that were stored before these
// fields existed. kube-apiserver does not always set them in events of a WATCH, so the objects must
// have them already.
func complete(internal runtime.Object) {
	switch o := internal.(type) {
	case *core.PersistentVolumeClaim:
		persistentvolumeclaim.NormalizeDataSources(&o.Spec)
	case *core.Service:
		single := core.IPFamilyPolicySingleStack
		o.Spec.IPFamilyPolicy, o.Spec.IPFamilies, o.Spec.ClusterIPs = &single, []core.IPFamily{core.IPv4Protocol}, nil
		if o.Spec.ClusterIP != "" {
			o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
		}
		if o.Spec.Type == core.ServiceTypeExternalName {
			o.Spec.InternalTrafficPolicy = nil
		}
	}
}

// uid returns the UID of the n-th object. It does not depend on the value of the object.
func (k *kind) uid(n int) types.UID {
	h := fmt.Sprintf("%x", sha256.Sum256([]byte(k.Group+"/"+k.Kind+"/"+k.Namespace+"/"+k.Names[n])))
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32])
}

// encode returns an object in its stored form, in the first of the kind's versions. It returns an
// error if the object cannot be converted to each of the versions.
func (k *kind) encode(internal runtime.Object) ([]byte, error) {
	proto := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	in := func(version string) runtime.GroupVersioner {
		return schema.GroupVersion{Group: k.Group, Version: version}
	}
	value, err := runtime.Encode(legacyscheme.Codecs.EncoderForVersion(proto, in(k.Versions[0])), internal)
	if err != nil {
		return nil, err
	}
	for _, version := range k.Versions {
		read, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), value)
		if err != nil {
			return nil, err
		}
		if _, err := runtime.Encode(legacyscheme.Codecs.EncoderForVersion(proto, in(version)), read); err != nil {
			return nil, err
		}
	}
	return value, nil
}
