// Uses the JavaScript client as programs do: a list, an informer, and writes that the informer must tell of.
// It prints what it sees, a line each, and ends when the pod that it made is gone.
import * as k8s from '@kubernetes/client-node';

const namespace = 'default';
const name = 'from-javascript';
const labelSelector = 'made=by-javascript';

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const core = config.makeApiClient(k8s.CoreV1Api);
const say = (...words) => console.log(words.join(' '));

const pods = await core.listPodForAllNamespaces();
say('pods', pods.items.length);
const page = await core.listPodForAllNamespaces({ limit: 10 });
say('page', page.items.length, page.metadata.remainingItemCount);
try {
  await core.readNamespacedPod({ name: 'missing', namespace });
} catch (err) {
  say('missing', err.code);
}

const informer = k8s.makeInformer(
  config,
  `/api/v1/namespaces/${namespace}/pods`,
  () => core.listNamespacedPod({ namespace, labelSelector }),
  labelSelector,
);
const step = (pod) => pod.metadata.annotations?.step ?? 'none';

informer.on('add', async (pod) => {
  say('added', pod.metadata.name, step(pod));
  await core.patchNamespacedPod(
    { name, namespace, body: { metadata: { annotations: { step: 'patched' } } } },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch),
  );
});
let going = false;
let gone = false;
informer.on('update', async (pod) => {
  if (going) return; // the deletion may be told in two steps
  going = true;
  say('updated', pod.metadata.name, step(pod));
  await core.deleteNamespacedPod({ name, namespace, gracePeriodSeconds: 0 });
});
informer.on('delete', (pod) => {
  say('deleted', pod.metadata.name, step(pod));
  gone = true;
  informer.stop();
});
informer.on('error', (err) => {
  if (gone) return; // stop aborts its watch
  say('error', err);
  process.exitCode = 1;
  informer.stop();
});

await informer.start();
await core.createNamespacedPod({
  namespace,
  body: {
    metadata: { name, labels: { made: 'by-javascript' } },
    spec: { automountServiceAccountToken: false, containers: [{ name: 'c', image: 'i' }] },
  },
});
