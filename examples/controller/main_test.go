package main

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestController checks that the controller copies the source to old and new namespaces, and undoes
// changes of copies.
func TestController(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{})
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := kubernetes.NewForConfigOrDie(server.Config()).CoreV1()
	namespace := func(name string) {
		_, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		check.NoError(t, err)
	}
	set := func(namespace, color string) {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": color}}
		if _, err = client.ConfigMaps(namespace).Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			_, err = client.ConfigMaps(namespace).Create(ctx, o, metav1.CreateOptions{})
		}
		check.NoError(t, err)
	}
	copied := func(namespace, color string) {
		t.Helper()
		testenv.Eventually(t, ctx, namespace+" has "+color, func() bool {
			o, err := client.ConfigMaps(namespace).Get(ctx, "settings", metav1.GetOptions{})
			return err == nil && o.Data["color"] == color
		})
	}
	namespace("shop")
	set("default", "red")
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, server.Config(), []string{"default/settings"}) }()
	copied("shop", "red")
	set("shop", "green")
	copied("shop", "red")
	namespace("bank")
	copied("bank", "red")
	set("default", "blue")
	copied("shop", "blue")
	copied("bank", "blue")
	check.NoError(t, client.ConfigMaps("bank").Delete(ctx, "settings", metav1.DeleteOptions{}))
	copied("bank", "blue")
	cancel()
	check.NoError(t, <-ended)
	if err := run(t.Context(), server.Config(), []string{"settings"}); err == nil {
		t.Error("a name without a namespace is accepted")
	}
}
