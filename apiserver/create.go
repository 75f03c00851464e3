package apiserver

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weirproject/weir/internal/core/request"
)

func (s *Server) create(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	o, err := res.fromRequest(w, r)
	if err != nil {
		return err
	}
	raw, err := s.insert(res, o, q.Namespace, dryRun(r), rand.Reader)
	if err != nil {
		return err
	}
	return res.cache.WriteObject(w, r, http.StatusCreated, raw)
}

func dryRun(r *http.Request) bool { return r.URL.Query().Get("dryRun") == metav1.DryRunAll }

// If an object with the generated name already exists, insert generates another name. It does so at
// most generateTries times.
const generateTries = 8

// insert stores a new object and returns its stored bytes. It reads random to generate the uid, and
// the name of an object with generateName. If dry is true, it stores nothing.
func (s *Server) insert(res *servedResource, o object, namespace string, dry bool, random io.Reader) ([]byte, error) {
	if err := s.prepare(res, o, namespace, random); err != nil {
		return nil, err
	}
	generated := o.GetName() == ""
	for try := 0; ; try++ {
		if generated {
			o.SetName(generateName(o.GetGenerateName(), random))
		}
		if errs := res.validateName(o); len(errs) > 0 {
			return nil, apierrors.NewInvalid(res.groupKind(), o.GetName(), errs)
		}
		raw, err := s.insertNamed(res, o, dry)
		if apierrors.IsAlreadyExists(err) && generated && try < generateTries {
			continue
		}
		return raw, err
	}
}

// prepare checks a new object, and sets the metadata that only the server determines, such as the
// uid.
func (s *Server) prepare(res *servedResource, o object, namespace string, random io.Reader) error {
	switch {
	case o.GetResourceVersion() != "" && o.GetResourceVersion() != "0":
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	case o.GetName() == "" && o.GetGenerateName() == "":
		return apierrors.NewInvalid(res.groupKind(), "", field.ErrorList{
			field.Required(field.NewPath("metadata", "name"), "name or generateName is required")})
	}
	if err := res.checkNamespace(o, namespace); err != nil {
		return err
	}
	if err := s.checkNamespaceExists(res, o); err != nil {
		return err
	}
	o.SetUID(newUID(random))
	o.SetCreationTimestamp(now())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	if res.strategy.generation > 0 {
		o.SetGeneration(res.strategy.generation)
	}
	if res.Status {
		resetStatus(o)
	}
	return s.admit(res, o)
}

// placeholderVersion is the resourceVersion of a new object until storage.put replaces it. With it,
// resourceVersion has its usual place among the encoded fields. So an update that changes nothing
// produces the same bytes, and the server detects that nothing changed.
const placeholderVersion = "0"

// insertNamed stores an object. It returns an error if an object with the same name exists.
func (s *Server) insertNamed(res *servedResource, o object, dry bool) ([]byte, error) {
	if !dry {
		o.SetResourceVersion(placeholderVersion)
	}
	raw, err := res.marshal(o)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	st := res.storage
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.unregistered {
		return nil, errUnregistered
	}
	if _, ok := st.store.Get(key(o.GetNamespace(), o.GetName())); ok {
		return nil, apierrors.NewAlreadyExists(res.groupResource(), o.GetName())
	}
	if dry {
		return raw, nil
	}
	if raw, err = st.put(raw); err != nil {
		return nil, err
	}
	return raw, s.afterWrite(res, o)
}

// checkNamespace returns an error if the object's namespace differs from the namespace in the path.
// If the object has none, checkNamespace sets it.
func (res *servedResource) checkNamespace(o object, namespace string) error {
	switch {
	case !res.Namespaced && o.GetNamespace() != "":
		return apierrors.NewBadRequest("namespace is not allowed on this type")
	case !res.Namespaced || o.GetNamespace() == namespace:
		return nil
	case o.GetNamespace() == "":
		o.SetNamespace(namespace)
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

const (
	generatedSuffix = 5
	maxGenerated    = 63 - generatedSuffix
	// suffixAlphabet has no vowels, so that suffixes contain no words.
	suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789"
)

func generateName(base string, random io.Reader) string {
	if len(base) > maxGenerated {
		base = base[:maxGenerated]
	}
	var b [generatedSuffix]byte
	_, _ = io.ReadFull(random, b[:]) // the random sources never fail
	var name strings.Builder
	name.WriteString(base)
	for _, c := range b {
		name.WriteByte(suffixAlphabet[int(c)%len(suffixAlphabet)])
	}
	return name.String()
}

// newUID returns a random UUID (RFC 9562, version 4).
func newUID(random io.Reader) types.UID {
	var b [16]byte
	_, _ = io.ReadFull(random, b[:]) // the random sources never fail
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return types.UID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// now returns the current time in whole seconds, the precision of times in metadata.
func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }
