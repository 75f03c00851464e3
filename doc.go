// Package weir keeps a live, local copy of Kubernetes objects and calls your handlers when they
// change.
//
// It implements Kubernetes' list/watch/informer machinery without spikes: memory, CPU and request
// rate do not rise sharply during the first LIST, a relist, a resync or a burst of events, or while
// a handler is slow.
//
//	pods, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{})
//	if err != nil { … }
//	pods.Handle(func(ctx context.Context, e weir.Event[*corev1.Pod]) {
//		fmt.Println(e.Type, e.Key()) // nothing is decoded until e.Object() is called
//	}, weir.HandlerOptions[*corev1.Pod]{})
//	go pods.Run(ctx)
//	if err := pods.WaitForSync(ctx); err != nil { … } // the error says why it did not sync
//	pod, err := pods.Get("default/web-0")
//
// An [Informer] stores each object as packed bytes and decodes the object when a caller reads it.
// If callers read an object twice within Options.DecodedIdle, the informer also keeps the decoded
// object. It drops the decoded object when no caller has read it for Options.DecodedIdle. Returned
// objects are shared and read-only: call [Item.Copy] or DeepCopy before you change one.
//
// T is a pointer to a Go type: a built-in type (*corev1.Pod), the struct of a custom resource,
// *unstructured.Unstructured, or *metav1.PartialObjectMetadata for metadata only.
//
// An informer has a reflector for each pair of a namespace and a selector in its options. Usually
// there is one such pair. A reflector lists and watches the objects. While a reflector has an error
// ([Status].Err), it is not current: the informer may store older versions of objects than the
// server.
package weir
