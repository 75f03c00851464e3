// Command istio runs pilot's service discovery: the registry of Kubernetes services, which uses
// Istio's kclient, and the index of ambient mode, which uses krt. Both use the same informers. It
// reports the services and the endpoints that pilot serves to proxies (see package report).
package main

import (
	"os"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/pkg/serviceregistry/aggregate"
	"istio.io/istio/pilot/pkg/serviceregistry/ambient"
	"istio.io/istio/pilot/pkg/serviceregistry/kube/controller"
	"istio.io/istio/pkg/activenotifier"
	"istio.io/istio/pkg/cluster"
	"istio.io/istio/pkg/config/mesh/meshwatcher"
	"istio.io/istio/pkg/kube"
	"istio.io/istio/pkg/kube/kclient"
	"istio.io/istio/pkg/kube/krt"
	"istio.io/istio/pkg/kube/multicluster"
	"istio.io/istio/pkg/kube/namespace"
	"istio.io/istio/pkg/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/e2e/programs/report"
)

func main() { report.Main(run) }

const (
	clusterID       = cluster.ID("cluster")
	domain          = "cluster.local"
	systemNamespace = "istio-system"
)

func run() error {
	options := log.DefaultOptions()
	options.OutputPaths = []string{"stderr"} // the standard output has the answers
	options.SetDefaultOutputLevel(log.OverrideScopeName, log.ErrorLevel)
	if err := log.Configure(options); err != nil {
		return err
	}
	client, err := kube.NewClient(kube.BuildClientCmd(os.Getenv("KUBECONFIG"), ""), clusterID)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	defer client.Shutdown()
	defer close(stop)
	d, err := discover(client, stop)
	if err != nil {
		return err
	}
	return report.Serve(report.Knowledge{Count: d.count, All: d.all})
}

// discovery is pilot's knowledge of a cluster.
type discovery struct {
	registry  *controller.Controller
	endpoints *model.EndpointIndex // those of the registry
	ambient   ambient.Index
}

// discover starts pilot's service discovery in the order of pilot's own start.
func discover(client kube.Client, stop chan struct{}) (discovery, error) {
	mesh, notifier, debugger := meshwatcher.NewTestWatcher(nil), activenotifier.New(false), new(krt.DebugHandler)
	kube.EnableCrdWatcher(client)
	kube.SetObjectFilter(client, namespace.NewDiscoveryNamespacesFilter(kclient.New[*corev1.Namespace](client), mesh, stop))
	clusters := multicluster.NewController(multicluster.ControllerOptions{
		Client: client, ClusterID: clusterID, SystemNamespace: systemNamespace, MeshConfig: mesh, Debugger: debugger,
	})
	d := discovery{endpoints: model.NewEndpointIndex(model.DisabledCache{})}
	updater := model.NewEndpointIndexUpdater(d.endpoints)
	services := aggregate.NewController(aggregate.Options{MeshHolder: mesh, ConfigClusterID: clusterID})
	d.registry = controller.NewController(client, controller.Options{
		SystemNamespace: systemNamespace, MeshServiceController: services, DomainSuffix: domain, ClusterID: clusterID,
		Metrics: &model.Environment{}, XDSUpdater: updater, MeshWatcher: mesh, ConfigCluster: true,
		StatusWritingEnabled: notifier, KrtDebugger: debugger, MultiClusterController: clusters,
	})
	services.AddRegistry(d.registry)
	d.ambient = ambient.New(ambient.Options{
		SystemNamespace: systemNamespace, DomainSuffix: domain, ClusterID: clusterID, XDSUpdater: updater,
		StatusNotifier: notifier, MeshConfig: mesh, Debugger: debugger, MultiClusterController: clusters,
	})
	if err := clusters.Run(stop); err != nil {
		return d, err
	}
	go services.Run(stop)      // which runs the registry, until stop is closed
	go d.ambient.Run(stop)     // returns when stop is closed
	go client.RunAndWait(stop) // returns when all informers have synced
	return d, nil
}

// count returns the number of the registry's endpoints and of the addresses of the ambient index.
// It returns 0 until both have synced.
func (d discovery) count() (n int) {
	if !d.registry.HasSynced() || !d.ambient.HasSynced() {
		return 0
	}
	addresses, _ := d.ambient.AddressInformation(nil)
	n = len(addresses)
	d.each(func(string, *model.IstioEndpoint) { n++ })
	return n
}

// each calls f with each endpoint of the registry, and the name of the endpoint's service.
func (d discovery) each(f func(service string, e *model.IstioEndpoint)) {
	for service, namespaces := range d.endpoints.Shardz() {
		for _, shards := range namespaces {
			for _, endpoints := range shards.Shards {
				for _, e := range endpoints {
					f(service, e)
				}
			}
		}
	}
}

// all returns the services and the endpoints of the registry, and the addresses of the ambient
// index, which are services and workloads.
func (d discovery) all() map[string]any {
	all := map[string]any{}
	for _, service := range d.registry.Services() {
		all["service "+string(service.Hostname)] = service
	}
	d.each(func(service string, e *model.IstioEndpoint) {
		all["endpoint "+service+" "+e.Key()] = e
	})
	addresses, _ := d.ambient.AddressInformation(nil)
	for _, a := range addresses {
		all["address "+a.ResourceName()] = a.Address
	}
	return all
}
