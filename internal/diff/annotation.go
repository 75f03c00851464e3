package diff

import "strings"

// repeatsObject reports whether an annotation's value is a JSON object, or one that is compressed,
// as those are in which tools keep what was applied: kubectl, kapp and Rancher's, which compress
// it.
func repeatsObject(value any) bool {
	text, ok := value.(string)
	return ok && (strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(text, gzipInBase64))
}

// gzipInBase64 is what the base64 of all that gzip has compressed begins with.
const gzipInBase64 = "H4sI"
