package hostile

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

var (
	attackFor = flag.Duration("hostile.for", 5*time.Second, "how long each attack lasts")
	timed     = flag.Bool("hostile.timed", false, "also attack kube-apiserver, and check latencies and times")
	program   = flag.String("hostile.program", "", "the weir-proxy to attack; empty: it is built")
	results   = flag.String("hostile.results", "", "directory of the measured rows; an attack that has one is not repeated")
)

const (
	// podCount is the number of pods in a LIST of a well-behaved client.
	podCount = 500
	// clientCount is the number of clients that reconnect after a restart. newUsers is the number of
	// users who have not used their tokens before an attack.
	clientCount, newUsers = 5000, 100
	// bigSize is the size of the data of the large ConfigMap, in bytes.
	bigSize = 1_000_000
)

// known, heavy and monitor are users. readers is the group of users who may read pods and
// ConfigMaps.
const (
	known   = "known"
	heavy   = "heavy" // attackers with credentials use this user's token
	monitor = "monitor"
	readers = "readers"
)

var (
	shared *cluster.Cluster
	binary string // path of weir-proxy
	pods   = podsim.New(podCount, 1)
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "weir-hostile-")
	if err != nil {
		cluster.LogToStderr("%v", err)
		return 1
	}
	defer os.RemoveAll(dir)
	code := cluster.Main(m, 20*time.Minute, func(ctx context.Context) (*cluster.Cluster, error) {
		if binary = *program; binary == "" {
			binary = filepath.Join(dir, "weir-proxy")
			if _, err := cluster.GoCommand(ctx, "", "build", "-o", binary, "github.com/weirproject/weir/proxy/cmd/weir-proxy"); err != nil {
				return nil, err
			}
		}
		if shared, err = cluster.Start(ctx, cluster.Options{
			Authorization: cluster.RBAC, Users: users(), Pods: pods, Logf: cluster.LogToStderr,
		}); err != nil {
			return shared, err
		}
		return shared, populate(ctx)
	})
	if *timed {
		fmt.Println(table())
	}
	return code
}

func newUser(i int) string    { return fmt.Sprintf("new-%d", i) }
func clientUser(i int) string { return fmt.Sprintf("client-%d", i) }

func users() []cluster.User {
	out := []cluster.User{{Name: monitor, Groups: []string{"system:monitoring"}}}
	add := func(name string) { out = append(out, cluster.User{Name: name, Groups: []string{readers}}) }
	add(known)
	add(heavy)
	for i := range newUsers {
		add(newUser(i))
	}
	for i := range clientCount {
		add(clientUser(i))
	}
	return out
}

// populate creates the large ConfigMap, and gives the readers their permissions.
func populate(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(shared.Config())
	if err != nil {
		return err
	}
	big := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "big"}, Data: map[string]string{"text": strings.Repeat("0123456789", bigSize/10)}}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, big, metav1.CreateOptions{}); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: readers}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"pods", "configmaps"}, Verbs: []string{"get", "list", "watch"},
	}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: readers},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: readers}},
	}, metav1.CreateOptions{})
	return err
}

func token(t *testing.T, user string) string {
	t.Helper()
	cfg, err := shared.ConfigFor(user)
	check.NoError(t, err)
	return cfg.BearerToken
}
