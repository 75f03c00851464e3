package podsim

import (
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// app is what the replicas of one Deployment have in common.
type app struct {
	name      string
	namespace string
	team      string
	version   string
	hash      string // pod-template-hash
	ownerUID  types.UID
	image     string
	imageID   string
	configSum string
	created   time.Time
	suffix    int // where the replicas' name suffixes begin
}

const (
	registry  = "registry.example.com"
	sidecar   = registry + "/proxy:1.29.2"
	sidecarID = registry + "/proxy@sha256:7e5b0c9d1f4a8362b0d9c7e1a5f3486d2c9b7a1e0f8d6c4b3a2918f7e6d5c4b3"
)

// epoch is when the oldest pods were created.
var epoch = time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC)

var (
	products = []string{
		"account", "billing", "cart", "catalog", "checkout", "customer", "delivery", "feed", "gateway", "identity",
		"inventory", "ledger", "media", "notifier", "order", "payment", "pricing", "profile", "recommend", "report",
		"review", "search", "session", "shipping", "tax",
	}
	roles = []string{"api", "worker", "web", "batch"}
)

func appName(i int) string {
	return fmt.Sprintf("%s-%s-%04d", products[i%len(products)], roles[i/len(products)%len(roles)], i)
}

func namespaceName(i int) string { return fmt.Sprintf("team-%05d", i) }

func nodeName(i int) string {
	ip := nodeIP(i)
	return fmt.Sprintf("ip-%d-%d-%d-%d.compute.internal", ip[0], ip[1], ip[2], ip[3])
}

func nodeIP(i int) [4]byte { return [4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)} }

func (p *Pods) app(i int) app {
	rnd := p.random(appStream, i)
	name, namespace := appName(i), i%p.namespaces
	version := fmt.Sprintf("v%d.%d.%d", 1+rnd.IntN(4), rnd.IntN(30), rnd.IntN(20))
	return app{
		name:      name,
		namespace: namespaceName(namespace),
		team:      products[namespace%len(products)],
		version:   version,
		hash:      nameHash(rnd, 10),
		ownerUID:  randomUID(rnd),
		image:     registry + "/" + name + ":" + version,
		imageID:   registry + "/" + name + "@sha256:" + randomHex(rnd, 64),
		configSum: randomHex(rnd, 64),
		created:   epoch.Add(time.Duration(rnd.IntN(60*24*3600)) * time.Second),
		suffix:    rnd.IntN(suffixes),
	}
}

// nameAlphabet is the alphabet of generated names in Kubernetes: no vowels, nothing that looks like
// another.
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

const (
	suffixLength = 5
	suffixes     = 27 * 27 * 27 * 27 * 27
	suffixStride = 7_368_787 // a prime that does not divide suffixes, so that no two replicas share a suffix
)

func (a *app) podSuffix(replica int) string {
	n := (a.suffix + replica*suffixStride) % suffixes
	var b [suffixLength]byte
	for i := range b {
		b[i] = nameAlphabet[n%len(nameAlphabet)]
		n /= len(nameAlphabet)
	}
	return string(b[:])
}

func nameHash(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = nameAlphabet[rnd.IntN(len(nameAlphabet))]
	}
	return string(b)
}

func randomHex(rnd *rand.Rand, n int) string {
	const digits = "0123456789abcdef"
	b := make([]byte, n)
	for i := 0; i < n; i += 16 {
		v := rnd.Uint64()
		for j := i; j < min(i+16, n); j++ {
			b[j] = digits[v&15]
			v >>= 4
		}
	}
	return string(b)
}

// randomUID makes an RFC 4122 version 4 uid.
func randomUID(rnd *rand.Rand) types.UID {
	h := randomHex(rnd, 32)
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-" + string("89ab"[rnd.IntN(4)]) + h[17:20] + "-" + h[20:])
}

func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Local()) }
