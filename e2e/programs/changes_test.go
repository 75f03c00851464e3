package programs

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestChanges(t *testing.T) {
	const source = `package p

import (
	"fmt"
	cachepkg "k8s.io/client-go/tools/cache"
)

// f is left as it is.
func f() { fmt.Println(cachepkg.NewStore(nil), cachepkg.NewStore(nil)) }
`
	list, err := parseChanges([]byte("# about p\nbuild example.com/p\nin example.com/p p.go\nimport example.com/weir\nchange cachepkg.NewStore( to weir.NewStore(\nshare Store(nil) to Store(shared)\n"))
	check.NoError(t, err)
	check.Equal(t, list.build, "example.com/p", "the package that is built")
	out, err := list.files[0].apply([]byte(source), false)
	check.NoError(t, err)
	if got := string(out); strings.Contains(got, "cachepkg") || !strings.Contains(got, `"example.com/weir"`) ||
		!strings.Contains(got, "fmt.Println(weir.NewStore(nil), weir.NewStore(nil))") || !strings.Contains(got, "// f is left as it is.") {
		t.Errorf("got\n%s", got)
	}
	if out, err = list.files[0].apply([]byte(source), true); err != nil || !strings.Contains(string(out), "Println(weir.NewStore(shared), weir.NewStore(shared))") {
		t.Errorf("shared: %v\n%s", err, out)
	}
	two, err := parseChanges([]byte("in example.com/p p.go\nchange import (\\n\"fmt\" to import (\\n\"fmt\"\\n\"os\"\n"))
	check.NoError(t, err)
	check.Equal(t, two.files[0].replacements[0], [2]string{"import (\n\t\"fmt\"", "import (\n\t\"fmt\"\n\t\"os\""}, "a change of two lines")
	if _, err := list.files[0].apply([]byte("package p\n"), false); err == nil || !strings.Contains(err.Error(), "NewStore") {
		t.Errorf("nothing to change: %v", err)
	}
}

func TestChangesAreRead(t *testing.T) {
	for _, bad := range []string{"in p\n", "import p\n", "in p f\nchange a\n", "in p f\nreplace a to b\n"} {
		if _, err := parseChanges([]byte(bad)); !errors.Is(err, errSyntax) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := parseChanges([]byte("# nothing\n")); err == nil {
		t.Error("no changes are accepted")
	}
}
