package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// prefix starts the names of all metrics of NewCollector, even of metrics that client-go also has.
// A registry rejects two collectors with the same metric name, and Kubernetes programs usually
// register client-go's metrics. NewClientGoCollector exports metrics with client-go's names.
const prefix = "weir_informer_"

// descriptions contains the descriptions of all metrics of NewCollector.
var descriptions []*prometheus.Desc

// describe returns the description of a metric. The metric has the labels that all metrics share,
// and the labels in more.
func describe(name, help string, more ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prefix+name, help, append([]string{"name", "group", "version", "kind"}, more...), nil)
	descriptions = append(descriptions, d)
	return d
}

var (
	syncedDesc     = describe("synced", "1 after the first list of each reflector is stored.")
	ageDesc        = describe("age_seconds", "Time since the informer last received something from the server.")
	stateAgeDesc   = describe("state_age_seconds", "Time since the server last confirmed that the informer's state is current.")
	failingDesc    = describe("failing_reflectors", "Reflectors with an error that prevents them from being current.")
	attemptsDesc   = describe("failed_attempts", "Consecutive failures.")
	relistsDesc    = describe("relists_total", "Complete states received after the first.", "reason")
	inPartsDesc    = describe("relists_in_parts_total", "Relists whose changes exceeded LogBytes, so that readers saw parts of them.")
	unreadableDesc = describe("unreadable_objects", "Objects that could not be read since the last list started.")

	objectsDesc         = describe("objects", "Stored objects.")
	resourceVersionDesc = describe("store_resource_version", "The 15 least significant digits of the resourceVersion up to which the informer has received everything.")
	rawDesc             = describe("raw_bytes", "The size of the objects as received.")
	memoryDesc          = describe("memory_bytes", "Memory by purpose.", "purpose")
	decodedReadsDesc    = describe("decoded_reads_total", "Reads of decoded objects: a hit found the object decoded, a miss decoded it.", "result")

	requestsDesc = describe("requests_total", "LISTs (each page counts) and WATCHes.", "verb")
	wireDesc     = describe("received_bytes_total", "Bytes received, before decompression.")
	bodyDesc     = describe("body_bytes_total", "Bytes received, after decompression.")

	differencesDesc = describe("shadow_differences_total", "Differences between an informer and its shadow.")
	comparedDesc    = describe("shadow_versions_total", "Versions of objects, by what the comparison of an informer with its shadow did with them.", "result")

	handledDesc       = describe("handler_events_total", "Events passed to the handler, resyncs included.", "handler")
	panicsDesc        = describe("handler_panics_total", "Events whose handling panicked.", "handler")
	lagDesc           = describe("handler_lag", "Changes that the handler has not received yet.", "handler")
	pendingDesc       = describe("handler_pending_keys", "Keys that the store keeps for the handler because it lags behind the change log.", "handler")
	busyDesc          = describe("handler_busy_seconds", "How long the handler's current call has lasted; 0 outside a call.", "handler")
	longestDesc       = describe("handler_longest_call_seconds", "The longest call that ended within the last five to ten minutes, or the current one if that is longer.", "handler")
	spentDesc         = describe("handler_call_seconds_total", "Total duration of the handler's calls.", "handler")
	handlerSyncedDesc = describe("handler_synced", "1 after the handler has handled every object of the informer's first list, and every object that was stored when the handler was added.", "handler")
)

// unadoptedDesc has other labels than the metrics of a running informer.
var unadoptedDesc = prometheus.NewDesc(prefix+"unadopted_total", "Informers that the drop-in returned as client-go's, because it does not know a field of theirs.", []string{"field"}, nil)

// digits returns the 15 least significant digits of a resourceVersion, like client-go's
// informer_store_resource_version. A float64 represents 15 digits exactly. A resourceVersion may
// exceed 64 bits, so digits takes the digits from its text. It returns false if the resourceVersion
// is not an integer.
func digits(rv string) (float64, bool) {
	if !resourceversion.IsInteger(rv) {
		return 0, false
	}
	return float64(resourceversion.Number(rv[max(0, len(rv)-15):])), true
}
