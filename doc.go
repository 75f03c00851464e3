// Package weir keeps a live, local copy of Kubernetes objects and tells you when they change.
//
// It is the list/watch/informer machinery of Kubernetes built so that nothing spikes: memory, CPU
// and request rate stay level through the first LIST, a relist, a resync, a burst of events and a
// slow consumer.
//
//	pods, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{})
//	if err != nil { … }
//	pods.Handle(func(ctx context.Context, e weir.Event[*corev1.Pod]) {
//		fmt.Println(e.Type, e.Key()) // nothing is decoded until e.Object() is called
//	}, weir.HandlerOptions[*corev1.Pod]{})
//	go pods.Run(ctx)
//	if err := pods.WaitForSync(ctx); err != nil { … } // says why, when it cannot
//	pod, err := pods.Get("default/web-0")
//
// An [Informer] holds each object as the bytes that came, packed, and decodes it when somebody
// looks at it. What is read again soon stays decoded until nobody has read it for a while. Objects
// are shared and read-only: call [Item.Copy] or DeepCopy before you change one.
//
// T is a pointer to a Go type: a built-in one (*corev1.Pod), the struct of a custom resource,
// *unstructured.Unstructured, or *metav1.PartialObjectMetadata for metadata only.
package weir
