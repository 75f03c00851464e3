package diff

import (
	"strings"
)

// redaction stands for a value of an environment variable.
const redaction = "(hidden)"

// isEnv reports whether a field of this name has environment variables: env of a container,
// extraEnv, envVars and the like of custom resources.
func isEnv(key string) bool {
	key = strings.ToLower(key)
	for _, end := range []string{"env", "envs", "envvar", "envvars", "environment", "environmentvariables"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

// told reports whether a field of an environment variable says no value: its name, and what object
// the value comes from.
func told(key string) bool { return key == "name" || key == "valueFrom" }

// redacted returns a value without those of environment variables in it. inEnv tells that the value
// itself is, or has, such variables. The value stays as it is.
func redacted(value any, inEnv bool) any {
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		object := make(map[string]any, len(value))
		for key, v := range value {
			switch {
			case inEnv && !told(key):
				object[key] = redaction
			default:
				object[key] = redacted(v, !inEnv && isEnv(key))
			}
		}
		return object
	case []any:
		list := make([]any, len(value))
		for i, v := range value {
			list[i] = redacted(v, inEnv)
		}
		return list
	}
	if inEnv {
		return redaction
	}
	return value
}

// repeatsObject reports whether an annotation's value is a JSON object, or one that is compressed,
// as those are in which tools keep what was applied: kubectl, kapp and Rancher's, which compress
// it.
func repeatsObject(value any) bool {
	text, ok := value.(string)
	return ok && (strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(text, gzipInBase64))
}

// gzipInBase64 is what the base64 of all that gzip has compressed begins with.
const gzipInBase64 = "H4sI"
