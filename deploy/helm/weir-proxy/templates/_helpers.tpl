{{/* The name of the objects: that of the release, with the chart's name unless it contains it. */}}
{{- define "weir-proxy.name" -}}
{{- $name := .Release.Name }}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end }}
{{- $name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "weir-proxy.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir-proxy.labels" -}}
{{ include "weir-proxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "weir-proxy.secret" -}}
{{ .Values.tls.secretName | default (printf "%s-tls" (include "weir-proxy.name" .)) }}
{{- end }}

{{- define "weir-proxy.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* Rules that allow verbs on resources, such as pods, deployments.apps or widgets.v1.example.com:
one rule for each group. */}}
{{- define "weir-proxy.rules" -}}
{{- $groups := dict }}
{{- range .resources }}
{{- $parts := splitList "." . }}
{{- $group := rest $parts }}
{{- if regexMatch "^v[0-9]+((alpha|beta)[0-9]+)?$" (first $group | default "") }}{{ $group = rest $group }}{{ end }}
{{- $group = join "." $group }}
{{- $_ := set $groups $group (append (get $groups $group | default list) (first $parts)) }}
{{- end }}
{{- range $group := keys $groups | sortAlpha }}
- apiGroups: [{{ $group | quote }}]
  resources: {{ get $groups $group | uniq | toJson }}
  verbs: {{ $.verbs | toJson }}
{{- end }}
{{- end }}
