package watchcache

import "strconv"

// Reaches says whether the cache can tell what came after resourceVersion, so that a WATCH can go on from it and a LIST of exactly that
// state can be answered: either the log still holds it, or it has yet to come. By the time that the request is served it may have become
// too old all the same.
func (c *Cache) Reaches(resourceVersion string) bool {
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return false
	}
	if c.current().rv < rv {
		return true
	}
	cursor, err := c.since(rv)
	if err != nil {
		return false
	}
	cursor.Close()
	return true
}

// OwnToken says whether a continue token is one of a cache, and not of another server.
func OwnToken(text string) bool {
	_, err := parseToken(text)
	return err == nil
}

// HasField says whether a field selector may name a field.
func (c *Cache) HasField(label string) bool {
	return label == metadataName.Label || label == metadataNamespace.Label || c.fields[label] != nil
}
