package podsim

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// app contains the values that all replicas of one Deployment share.
type app struct {
	name      string
	namespace string
	team      string
	version   string
	hash      string // the value of the label pod-template-hash
	ownerUID  types.UID
	image     string
	imageID   string
	configSum string
	created   time.Time
	suffix    int // the number that determines the first replica's name suffix
}

const (
	registry  = "registry.example.com"
	sidecar   = registry + "/proxy:1.29.2"
	sidecarID = registry + "/proxy@sha256:7e5b0c9d1f4a8362b0d9c7e1a5f3486d2c9b7a1e0f8d6c4b3a2918f7e6d5c4b3"
)

// epoch is the creation time of the oldest pods.
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
		hash:      Hash(rnd, 10),
		ownerUID:  UID(rnd),
		image:     registry + "/" + name + ":" + version,
		imageID:   registry + "/" + name + "@sha256:" + Hex(rnd, 64),
		configSum: Hex(rnd, 64),
		created:   epoch.Add(time.Duration(rnd.IntN(60*24*3600)) * time.Second),
		suffix:    rnd.IntN(suffixes),
	}
}

const (
	suffixLength = 5
	suffixes     = 27 * 27 * 27 * 27 * 27
	// suffixStride is a prime that does not divide the constant suffixes, so that all replicas have
	// different name suffixes.
	suffixStride = 7_368_787
)

func (a *app) podSuffix(replica int) string {
	n := (a.suffix + replica*suffixStride) % suffixes
	var b [suffixLength]byte
	for i := range b {
		b[i] = NameAlphabet[n%len(NameAlphabet)]
		n /= len(NameAlphabet)
	}
	return string(b[:])
}

func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Local()) }
