{{- define "drift-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "drift-exporter.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "drift-exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "drift-exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
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
{{- $settings := deepCopy .Values.settings }}
{{- with .Values.addresses.grafana }}
{{- $settings = mergeOverwrite (dict "api" (dict "grafana_url" .)) $settings }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{/* The web configuration file; empty where there is none of ours. */}}
{{- define "drift-exporter.webConfig" -}}
{{- if .Values.web.config }}
{{- toYaml .Values.web.config }}
{{- else if and .Values.web.tlsSecret (not .Values.web.existingSecret) -}}
tls_server_config:
  cert_file: /etc/drift-exporter/tls/tls.crt
  key_file: /etc/drift-exporter/tls/tls.key
{{- end }}
{{- end }}

{{/* The Secret that has the web configuration file; empty where there is none. */}}
{{- define "drift-exporter.webSecret" -}}
{{- if .Values.web.existingSecret }}
{{- .Values.web.existingSecret }}
{{- else if include "drift-exporter.webConfig" . }}
{{- include "drift-exporter.fullname" . }}-web
{{- end }}
{{- end }}

{{- define "drift-exporter.scheme" -}}
{{- if .Values.web.scheme }}
{{- .Values.web.scheme }}
{{- else if hasKey (include "drift-exporter.webConfig" . | fromYaml) "tls_server_config" }}https
{{- else }}http
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
