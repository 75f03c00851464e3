package programs

import (
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestCountChanges(t *testing.T) {
	const source = `package p

import (
	"fmt"
	"os"
)

var a, b = 1, 2

func f(n int) {
	if n > 0 {
		fmt.Println(os.Args)
	} else if n < 0 {
		run(func() {
			fmt.Println(b)
		})
	}
	switch n {
	case 1:
		f(2)
	}
}
`
	for name, test := range map[string]struct {
		replace             []string
		statements, imports int
	}{
		"nothing":                     {nil, 0, 0},
		"a call":                      {[]string{"(b)", "(a)"}, 1, 0},
		"an appended statement":       {[]string{"fmt.Println(b)", "fmt.Println(a); fmt.Println(b)"}, 1, 0},
		"two of a line":               {[]string{"fmt.Println(b)", "fmt.Print(a); fmt.Print(b)"}, 2, 0},
		"an outer statement":          {[]string{"run(", "start("}, 1, 0},
		"conditions":                  {[]string{"n > 0", "n > 1", "n < 0", "n < 1"}, 2, 0},
		"a case and its body":         {[]string{"case 1", "case 2", "f(2)", "f(3)"}, 2, 0},
		"a declaration":               {[]string{"= 1, 2", "= 3, 4", "f(n int)", "f(n int64)"}, 2, 0},
		"an import in place of one":   {[]string{`"os"`, `"example.com/os"`}, 0, 1},
		"an import, and a line moved": {[]string{`"os"`, "\"os\"\n\t\"time\"", "fmt.Println(os.Args)", "\n\t\tfmt.Println( os.Args )"}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			statements, imports, err := countChanges([]byte(source), []byte(strings.NewReplacer(test.replace...).Replace(source)))
			check.NoError(t, err)
			if statements != test.statements || imports != test.imports {
				t.Errorf("%d statements and %d imports, wanted %d and %d", statements, imports, test.statements, test.imports)
			}
		})
	}
	if _, _, err := countChanges([]byte(source), []byte("package")); err == nil {
		t.Error("a file that is not Go is accepted")
	}
}
