package figures

import (
	"encoding/json"
	"io"
)

// WriteJSON writes a result, indented, as -o json prints it.
func WriteJSON(w io.Writer, result any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(result)
}
