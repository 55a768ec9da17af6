{{/* Values that the schema takes and that would give a pod which never runs, or does something else than they say. */}}
{{- define "drift-exporter.refusals" -}}
{{- $sources := include "drift-exporter.sources" . | fromJson }}
{{- if not $sources }}{{ fail "settings.sources: no source is switched on; want at least `annotation: {}`" }}{{ end }}
{{- if and (hasKey $sources "manifest") (not (default dict $sources.manifest).paths) }}{{ fail "settings.sources.manifest.paths has to name a file or a directory, which extraVolumes brings" }}{{ end }}

{{- $web := .Values.web }}
{{- if and $web.existingSecret $web.config }}{{ fail "web.existingSecret has the web configuration file already, and web.config would not be read: set one of them" }}{{ end }}
{{- if and $web.auth (default dict $web.config).basic_auth_users }}{{ fail "web.auth and web.config.basic_auth_users both say who may ask: set one of them" }}{{ end }}

{{- $values := dict
  "--config.file" "settings"
  "--events" "events"
  "--log.format" "log.format"
  "--namespaces" "settings.namespaces"
  "--sources" "settings.sources"
  "--web.auth" "web.auth"
  "--web.config.file" "web.config or web.existingSecret"
  "--web.health-address" "livenessProbe and readinessProbe"
  "--web.listen-address" "service.port" }}
{{- range .Values.extraArgs }}
{{- $flag := first (splitList "=" .) }}
{{- with index $values $flag }}{{ fail (printf "extraArgs: the rest of the chart would not go by %s; set %s" $flag .) }}{{ end }}
{{- end }}
{{- range .Values.extraEnv }}
{{- $name := default "" .name }}
{{- range $flag, $value := $values }}
{{- if eq $name (regexReplaceAll "[.-]" (upper (trimPrefix "--" $flag)) "_" | printf "DRIFT_%s") }}{{ fail (printf "extraEnv: the rest of the chart would not go by %s; set %s" $name $value) }}{{ end }}
{{- end }}
{{- end }}

{{- $selected := list "app.kubernetes.io/name" "app.kubernetes.io/instance" }}
{{- $own := concat $selected (list "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") }}
{{- $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels }}
{{- range list "serviceMonitor" "podMonitor" "prometheusRule" "dashboards" }}
{{- $_ := set $labels (printf "%s.labels" .) (index $.Values .).labels }}
{{- end }}
{{- range $key, $map := $labels }}
{{- range $label, $_ := $map }}
{{- if has $label (ternary $selected $own (eq $key "podLabels")) }}{{ fail (printf "%s: %s is the chart's own, and objects are selected by such labels; use another one, or nameOverride" $key $label) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
