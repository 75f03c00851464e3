package apiserver

import "strconv"

// key of an object in its store.
func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func formatVersion(v uint64) string { return strconv.FormatUint(v, 10) }
