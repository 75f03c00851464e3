package humanize

import (
	"strings"
)

// redaction replaces a value of an environment variable.
const redaction = "(hidden)"

// isEnv reports whether a field of this name contains environment variables: env of a container,
// and extraEnv, envVars and similar fields of custom resources.
func isEnv(key string) bool {
	key = strings.ToLower(key)
	for _, end := range []string{"env", "envs", "envvar", "envvars", "environment", "environmentvariables"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

// told reports whether a field of an environment variable contains no value: its name, and the
// object that the value comes from.
func told(key string) bool { return key == "name" || key == "valueFrom" }

// redacted returns a value with the values of environment variables replaced. inEnv reports that
// the value itself is, or contains, such variables. The value is unchanged.
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

// repeatsObject reports whether an annotation's value is a JSON object, or a compressed one, in
// which tools keep the applied object: kubectl, kapp and Rancher's, which compress it.
func repeatsObject(value any) bool {
	text, ok := value.(string)
	return ok && (strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(text, gzipInBase64))
}

// gzipInBase64 is the start of the base64 form of all gzip output.
const gzipInBase64 = "H4sI"
