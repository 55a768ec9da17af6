{{- define "drift-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "drift-exporter.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $fullname := .Values.fullnameOverride }}
{{- if not $fullname }}
{{- $fullname = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- end }}
{{- if contains "." $fullname }}{{ fail (printf "a Service cannot be called %s: set fullnameOverride to a name without dots" $fullname) }}{{ end }}
{{- $fullname | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "drift-exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "drift-exporter.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "drift-exporter.labels" -}}
{{ include "drift-exporter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* With labels of one object's own, which stand above those of all: (list root labels). */}}
{{- define "drift-exporter.labelsWith" -}}
{{- toYaml (merge dict (default dict (last .)) (include "drift-exporter.labels" (first .) | fromYaml)) }}
{{- end }}

{{- define "drift-exporter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "drift-exporter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "drift-exporter.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The settings file. Objects link to their dashboard where it is known where Grafana is. */}}
{{- define "drift-exporter.settings" -}}
{{- $settings := deepCopy (default dict .Values.settings) }}
{{- with .Values.addresses.grafana }}
{{- $settings = mergeOverwrite (dict "api" (dict "grafana_url" .)) $settings }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{/* The sources that are switched on, as the program has it: a key without a value is none. */}}
{{- define "drift-exporter.sources" -}}
{{- $written := (default dict .Values.settings).sources }}
{{- $sources := dict }}
{{- if kindIs "invalid" $written }}{{ $sources = dict "annotation" dict }}{{ end }}
{{- range $name, $source := $written }}
{{- if not (kindIs "invalid" $source) }}{{ $_ := set $sources $name $source }}{{ end }}
{{- end }}
{{- toJson $sources }}
{{- end }}

{{/* The web configuration file; empty where there is none of ours. A certificate that `config` names stands above that of `tlsSecret`. */}}
{{- define "drift-exporter.webConfig" -}}
{{- $config := deepCopy (default dict .Values.web.config) }}
{{- if and .Values.web.tlsSecret (not .Values.web.existingSecret) }}
{{- $tls := default dict $config.tls_server_config }}
{{- if not (or $tls.cert_file $tls.cert) }}{{ $_ := set $tls "cert_file" "/etc/drift-exporter/tls/tls.crt" }}{{ end }}
{{- if not (or $tls.key_file $tls.key) }}{{ $_ := set $tls "key_file" "/etc/drift-exporter/tls/tls.key" }}{{ end }}
{{- $_ := set $config "tls_server_config" $tls }}
{{- end }}
{{- if $config }}{{ toYaml $config }}{{ end }}
{{- end }}

{{/* The Secret that has the web configuration file; empty where there is none. */}}
{{- define "drift-exporter.webSecret" -}}
{{- if .Values.web.existingSecret }}
{{- .Values.web.existingSecret }}
{{- else if include "drift-exporter.webConfig" . }}
{{- include "drift-exporter.fullname" . }}-web
{{- end }}
{{- end }}

{{/* What is spoken. A file in a Secret cannot be read here; who mounts a certificate beside it means to serve it. */}}
{{- define "drift-exporter.scheme" -}}
{{- $tls := default dict (include "drift-exporter.webConfig" . | fromYaml).tls_server_config }}
{{- if .Values.web.scheme }}
{{- .Values.web.scheme }}
{{- else if or $tls.cert_file $tls.cert (and .Values.web.existingSecret .Values.web.tlsSecret) }}https
{{- else }}http
{{- end }}
{{- end }}

{{/* The flags that `run` and `check` share, one on each line. */}}
{{- define "drift-exporter.flags" -}}
--config.file=/etc/drift-exporter/settings/settings.yaml
{{- if .Values.events }}
--events
{{- end }}
{{- if include "drift-exporter.webSecret" . }}
--web.config.file=/etc/drift-exporter/web/web-config.yml
{{- end }}
{{- with .Values.web.auth }}
--web.auth={{ . }}
{{- end }}
{{- end }}

{{/* What a ServiceMonitor and a PodMonitor say about scraping. Our label `namespace` is the object's, not the exporter's: hence honorLabels. */}}
{{- define "drift-exporter.scrape" -}}
port: http
path: /metrics
honorLabels: true
scheme: {{ include "drift-exporter.scheme" .root }}
{{- with .monitor.interval }}
interval: {{ . }}
{{- end }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- range $key := list "tlsConfig" "authorization" "basicAuth" "relabelings" "metricRelabelings" }}
{{- with index $.monitor $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* A text with links, which lead to where things are. */}}
{{- define "drift-exporter.linked" -}}
{{- $text := .text }}
{{- with .root.Values.addresses.runbooks }}{{ $text = replace "https://runbooks.example.com/drift-exporter" (trimSuffix "/" .) $text }}{{ end }}
{{- with .root.Values.addresses.grafana }}{{ $text = replace "https://grafana.example.com" (trimSuffix "/" .) $text }}{{ end }}
{{- with .root.Values.addresses.page }}{{ $text = replace "https://drift.example.com" (trimSuffix "/" .) $text }}{{ end }}
{{- $text }}
{{- end }}

{{/* For what has no namespace of its own, or lies in others': two releases of one name must not meet there. */}}
{{- define "drift-exporter.clusterName" -}}
{{- $fullname := include "drift-exporter.fullname" . }}
{{- if eq $fullname .Release.Namespace }}{{ $fullname }}{{ else }}{{ printf "%s-%s" .Release.Namespace $fullname }}{{ end }}
{{- end }}
