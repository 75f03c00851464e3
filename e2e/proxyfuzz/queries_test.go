package proxyfuzz

import (
	"fmt"
	"net/url"
	"strings"
)

// queryOf draws a query. A watch has an end.
func queryOf(d dice, r *resource) []string {
	var q []string
	add := func(name, value string) { q = append(q, name+"="+url.QueryEscape(value)) }
	if d.percent(75) {
		add("resourceVersion", versionOf(d))
	}
	watch := d.percent(18)
	if watch {
		add("watch", pick(d, "true", "true", "1", "true", "", "yes", "false"))
		if d.percent(40) {
			add("sendInitialEvents", pick(d, "true", "true", "false", "junk", "1"))
			if d.percent(80) {
				add("resourceVersionMatch", pick(d, "NotOlderThan", "NotOlderThan", "Exact"))
			}
		}
		if d.percent(60) {
			add("allowWatchBookmarks", pick(d, "true", "false", "1"))
		}
	}
	q = append(q, "timeoutSeconds=1")
	if !watch && d.percent(40) {
		q = q[:len(q)-1]
	}
	if !watch && d.percent(25) {
		add("limit", pick(d, "1", "2", "3", "5", "500", "0", "-1", "junk", "9223372036854775808"))
	}
	if !watch && d.percent(12) {
		add("resourceVersionMatch", pick(d, "NotOlderThan", "Exact", "Nonsense", ""))
	}
	if d.percent(25) {
		add("labelSelector", pick(d, "color=red", "color!=red", "color in (red,blue)", "color", "!color", "tier=0,color=green", "nothing=here", "color notin (red)",
			"-bad-", "a in (", "color=red,color=blue", "tier>0", "", strings.Repeat("color!=x,", 200)+"color"))
	}
	if d.percent(25) {
		fields := append([]string{"metadata.name=" + pick(d, r.names...), "metadata.namespace=mine", "metadata.namespace=yours", "metadata.namespace!=mine",
			"metadata.name=" + pick(d, r.names...) + ",metadata.namespace=yours", "metadata.name!=plain", "metadata.name=a/b", "metadata.name=..", "metadata.name=",
			"metadata.name=plain,metadata.name=key", "metadata.uid=1", "=", ",", "metadata.name=a\\,b", `metadata.name=web-0\=`, "metadata.name==web-0"}, r.fields...)
		add("fieldSelector", pick(d, fields...))
	}
	if d.percent(6) {
		const low, high = "'0x0000000000000000','0x7000000000000000'", "'0x7000000000000000','0x10000000000000000'"
		uid, namespace := "shardRange(object.metadata.uid,", "shardRange(object.metadata.namespace,"
		add("shardSelector", pick(d, uid+low+")", uid+high+")", uid+low+")||"+uid+high+")", "("+uid+high+"))", namespace+low+")", namespace+high+")",
			"o."+uid+low+")", uid+low+")||"+namespace+high+")", "shardRange(object.metadata.name,"+low+")", "", " ", uid+"'0x0','0x8')", uid+low))
	}
	if d.percent(3) {
		add("continue", pick(d, "junk", "{then}", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJiIn0", "eyJydiI6MX0", ""))
	}
	if d.percent(7) {
		q = append(q, pick(d, "pretty=true", "pretty", "unheardOf=1", "shardSelector=x", "fieldManager=x", "force=true", "timeout=5s", "timeout=junk", "timeout=1ns", "export=true",
			"includeObject=None", "includeObject=Object", "includeObject=junk", "%zz", "a;b", "watch", "Watch=true", "ResourceVersion=0", "dryRun=junk", "follow=true",
			"resourceVersion=0;watch=1", "metadata.name=mine", "namespace=yours", "name=key", "%77atch=true", "ignoreStoreReadErrorWithClusterBreakingPotential=true"))
	}
	if d.percent(4) && len(q) > 0 { // the same again, or otherwise
		q = append(q, pick(d, append(q, "resourceVersion=0", "watch=false", "limit=1", "fieldSelector=", "labelSelector=color%3Dblue", "resourceVersion=")...))
	}
	d.Shuffle(len(q), func(i, j int) { q[i], q[j] = q[j], q[i] })
	return q
}

// versionOf draws a resourceVersion. Those that lie ahead are waited for by servers, so there are
// few.
func versionOf(d dice) string {
	switch n := d.IntN(100); {
	case n < 55:
		return "0"
	case n < 65:
		return "{then}"
	case n < 80:
		return "{now}"
	case n < 84:
		return "1"
	case n < 85:
		return "{ahead}"
	case n < 92:
		return ""
	}
	return pick(d, "junk", "-1", "00", "007", "1.5", "18446744073709551616", " 0", "0x10", "+0", "{now}junk")
}

// fillIn puts into a target what only the run knows.
func (w *world) fillIn(target string) string {
	return strings.NewReplacer("%7Bthen%7D", fmt.Sprint(w.then), "%7Bnow%7D", fmt.Sprint(w.now), "%7Bahead%7D", fmt.Sprint(w.now+1_000_000)).Replace(target)
}
