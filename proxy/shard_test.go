package proxy

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/sharding"

	"github.com/weirproject/weir/internal/core/shard"
)

// FuzzShardSelector checks that kube-apiserver accepts each shard selector that the proxy accepts,
// with the same meaning. The proxy forwards all other selectors.
func FuzzShardSelector(f *testing.F) {
	const one = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
	for _, text := range []string{
		one, "(" + one + ") || " + one, "//\n" + one, strings.ReplaceAll(one, "'", `"`), strings.ReplaceAll(one, "uid", "namespace"), one + "||", "o." + one,
		strings.ReplaceAll(one, "object.metadata", "(object . metadata)"), strings.ReplaceAll(one, "'0x8", "r'0x8"), one + "\f//", one + "\v||" + one,
		one + "'", "(" + one + `) "`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, err := shard.Parse(text)
		if err != nil {
			return
		}
		theirs, err := sharding.Parse(text)
		if err != nil {
			t.Fatalf("%q is accepted, but by kube-apiserver: %v", text, err)
		}
		if theirs.String() != ours.String() {
			t.Fatalf("%q is read as %s, by kube-apiserver as %s", text, ours, theirs)
		}
	})
}
