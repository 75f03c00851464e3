package main

import (
	"context"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestOperator checks that the operator creates and updates the Deployment of a Website, and that
// it writes the status.
func TestOperator(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{})
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.New(server.Config(), client.Options{Scheme: newScheme()})
	check.NoError(t, err)
	raw, err := os.ReadFile("crd.yaml")
	check.NoError(t, err)
	definition := &unstructured.Unstructured{}
	check.NoError(t, yaml.UnmarshalStrict(raw, &definition.Object))
	check.NoError(t, c.Create(ctx, definition))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, server.Config()) }()

	site := &Website{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}}
	site.Spec.Image, site.Spec.Replicas = "nginx:1", 2
	check.NoError(t, c.Create(ctx, site))
	key, deployment := client.ObjectKeyFromObject(site), &appsv1.Deployment{}
	has := func(image string, replicas int32) {
		t.Helper()
		testenv.Eventually(t, ctx, "the Deployment has "+image, func() bool {
			return c.Get(ctx, key, deployment) == nil && deployment.Spec.Template.Spec.Containers[0].Image == image && *deployment.Spec.Replicas == replicas
		})
	}
	has("nginx:1", 2)
	if owner := metav1.GetControllerOf(deployment); owner == nil || owner.Name != "shop" || owner.Kind != "Website" {
		t.Errorf("the owner is %+v", owner)
	}
	deployment.Status.ReadyReplicas = 1
	check.NoError(t, c.Status().Update(ctx, deployment))
	testenv.Eventually(t, ctx, "one pod is ready", func() bool { return c.Get(ctx, key, site) == nil && site.Status.Ready == 1 })
	site.Spec.Image, site.Spec.Replicas = "nginx:2", 3
	check.NoError(t, c.Update(ctx, site))
	has("nginx:2", 3)
	cancel()
	check.NoError(t, <-ended)
}
