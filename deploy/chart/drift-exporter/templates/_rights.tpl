{{/*
Which rights the settings need, as `drift-exporter check` says: {"*": {"apps/deployments": {list: true, watch: true}}, shop: …}, where
"*" stands for all namespaces.
*/}}
{{- define "drift-exporter.rights" -}}
{{- $settings := default dict .Values.settings }}
{{- $sources := include "drift-exporter.sources" . | fromJson }}
{{- $allowed := include "drift-exporter.scope" (dict "own" list "outer" (default list $settings.namespaces) "without" list) | fromJsonArray }}
{{- $kinds := .Files.Get "files/kinds.yaml" | fromYaml }}
{{- $all := concat $kinds.usual $kinds.others }}
{{- $rights := dict }}
{{- $stream := list "list" "watch" }}
{{- $context := dict "rights" $rights "all" $all "resources" .Values.rbac.resources "outer" (default list $settings.namespaces) }}

{{- range $settings.kinds }}
{{- include "drift-exporter.watch" (merge (dict "wanted" .) $context) }}
{{- end }}
{{- if and (not $settings.kinds) (hasKey $sources "annotation") }}
{{- range list (list "apps" "deployments") (list "" "services") }}
{{- include "drift-exporter.grant" (list $rights $allowed (first .) (last .) $stream) }}
{{- end }}
{{- end }}
{{- $declares := or (hasKey $sources "terraform") (hasKey $sources "helm") (hasKey $sources "manifest") }}
{{- if or (and $declares .Values.rbac.usualKinds) (and (not $settings.kinds) (hasKey $sources "last_applied")) }}
{{- range $kinds.usual }}
{{- if or (not .cluster) (has "*" $allowed) }}
{{- include "drift-exporter.grant" (list $rights $allowed .group .resource $stream) }}
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.rbac.declaredKinds }}
{{- include "drift-exporter.watch" (merge (dict "wanted" .) $context) }}
{{- end }}

{{- if hasKey $sources "terraform" }}
{{- $namespaces := default list $sources.terraform.namespaces }}
{{- if not $namespaces }}{{ fail "settings.sources.terraform.namespaces has to name the namespaces that have states or published baselines: this chart lets Secrets be read in named namespaces only. Where all states are files on a volume, name the namespace of the release. With rbac.create=false rights are yours to give." }}{{ end }}
{{- include "drift-exporter.grant" (list $rights $namespaces "" "secrets" $stream) }}
{{- include "drift-exporter.grant" (list $rights $namespaces "coordination.k8s.io" "leases" $stream) }}
{{- /* Who scales what states declare; it is asked for by the way. */}}
{{- include "drift-exporter.grant" (list $rights $allowed "autoscaling" "horizontalpodautoscalers" $stream) }}
{{- end }}
{{- if hasKey $sources "helm" }}
{{- $namespaces := default list $sources.helm.namespaces }}
{{- if not $namespaces }}{{ fail "settings.sources.helm.namespaces has to name the namespaces that have releases: this chart lets Secrets be read in named namespaces only. With rbac.create=false rights are yours to give." }}{{ end }}
{{- range list "secrets" "configmaps" }}
{{- include "drift-exporter.grant" (list $rights $namespaces "" . (list "get" "list" "watch")) }}
{{- end }}
{{- end }}
{{- $opr8r := dict "apiVersion" "infra.opr8r/v1alpha1" "kind" "SimpleResource" "algorithm" "opr8r-v1" }}
{{- $jobs := $settings.terraform_jobs }}
{{- if hasKey $sources "status_hash" }}
{{- range default (list $opr8r) $sources.status_hash }}
{{- include "drift-exporter.watch" (merge (dict "wanted" .) $context) }}
{{- if and (kindIs "invalid" $jobs) (eq .algorithm "opr8r-v1") }}{{ $jobs = dict "namespaces" list }}{{ end }}
{{- end }}
{{- end }}
{{- if not (kindIs "invalid" $jobs) }}
{{- include "drift-exporter.watch" (merge (dict "wanted" (dict "apiVersion" "batch/v1" "kind" "Job" "namespaces" $jobs.namespaces)) $context) }}
{{- end }}

{{- if not (kindIs "invalid" $settings.team_rules) }}
{{- $own := default list $settings.team_rules.namespaces }}
{{- $namespaces := include "drift-exporter.scope" (dict "own" $own "outer" (default list $settings.namespaces) "without" list) | fromJsonArray }}
{{- include "drift-exporter.grant" (list $rights $namespaces "" "configmaps" (list "list")) }}
{{- end }}
{{- if .Values.events }}
{{- include "drift-exporter.grant" (list $rights $allowed "events.k8s.io" "events" (list "create" "patch")) }}
{{- end }}
{{- if eq .Values.web.auth "kubernetes" }}
{{- include "drift-exporter.grant" (list $rights (list "*") "authentication.k8s.io" "tokenreviews" (list "create")) }}
{{- include "drift-exporter.grant" (list $rights (list "*") "authorization.k8s.io" "subjectaccessreviews" (list "create")) }}
{{- end }}
{{- toJson $rights }}
{{- end }}

{{/* The namespaces of something, within those that may be watched at all: ["*"] for all of them. */}}
{{- define "drift-exporter.scope" -}}
{{- $outer := .outer }}
{{- $names := list }}
{{- if and .own $outer }}
{{- range .own }}{{ if has . $outer }}{{ $names = append $names . }}{{ end }}{{ end }}
{{- else if or .own $outer }}
{{- $names = default $outer .own }}
{{- else }}
{{- $names = list "*" }}
{{- end }}
{{- range .without }}{{ $names = without $names . }}{{ end }}
{{- toJson $names }}
{{- end }}

{{/* Lets a kind be listed and watched, as an entry of `kinds` asks for it. */}}
{{- define "drift-exporter.watch" -}}
{{- $wanted := .wanted }}
{{- $group := "" }}
{{- if contains "/" $wanted.apiVersion }}{{ $group = first (splitList "/" $wanted.apiVersion) }}{{ end }}
{{- if not (regexMatch "^[a-z0-9.-]*$" $group) }}{{ fail (printf "kinds: `%s` is no API group; want GROUP/VERSION, GROUP/* or v1" $group) }}{{ end }}
{{- $namespaces := include "drift-exporter.scope" (dict "own" (default list $wanted.namespaces) "outer" .outer "without" (default list $wanted.excluded_namespaces)) | fromJsonArray }}
{{- $resource := index .resources (printf "%s/%s" $group $wanted.kind | trimPrefix "/") | default "" }}
{{- if eq $wanted.kind "*" }}
{{- if has $group (list "" "coordination.k8s.io") }}{{ fail (printf "kinds: %s has Secrets or Leases; name its kinds instead of *" $wanted.apiVersion) }}{{ end }}
{{- $resource = "*" }}
{{- end }}
{{- $cluster := false }}
{{- range .all }}
{{- if and (eq .group $group) (eq .kind $wanted.kind) (not $resource) }}
{{- $resource = .resource }}
{{- $cluster = default false .cluster }}
{{- end }}
{{- end }}
{{- if not $resource }}{{ fail (printf "the chart does not know the resource of %s in %s; say it as rbac.resources: {\"%s\": …}" $wanted.kind $wanted.apiVersion (printf "%s/%s" $group $wanted.kind | trimPrefix "/")) }}{{ end }}
{{- if or (not $cluster) (has "*" $namespaces) }}
{{- include "drift-exporter.grant" (list .rights $namespaces $group $resource (list "list" "watch")) }}
{{- end }}
{{- end }}

{{/* Adds verbs on a resource: (list rights namespaces group resource verbs). */}}
{{- define "drift-exporter.grant" -}}
{{- $rights := index . 0 }}
{{- $resource := printf "%s/%s" (index . 2) (index . 3) }}
{{- $verbs := index . 4 }}
{{- range $namespace := index . 1 }}
{{- if and (eq $namespace "*") (eq $resource "/secrets") }}{{ fail "Secrets are read in named namespaces only: say which ones" }}{{ end }}
{{- if not (hasKey $rights $namespace) }}{{ $_ := set $rights $namespace dict }}{{ end }}
{{- $within := index $rights $namespace }}
{{- if not (hasKey $within $resource) }}{{ $_ := set $within $resource dict }}{{ end }}
{{- range $verbs }}{{ $_ := set (index $within $resource) . true }}{{ end }}
{{- end }}
{{- end }}

{{/* The rules of one role: (list rights namespace). What is allowed in all namespaces is not allowed once more in one. */}}
{{- define "drift-exporter.rules" -}}
{{- $rights := index . 0 }}
{{- $namespace := index . 1 }}
{{- $everywhere := default dict (index $rights "*") }}
{{- $rules := dict }}
{{- range $resource, $verbs := index $rights $namespace }}
{{- $left := list }}
{{- range $verb := keys $verbs | sortAlpha }}
{{- if or (eq $namespace "*") (not (hasKey (default dict (index $everywhere $resource)) $verb)) }}{{ $left = append $left $verb }}{{ end }}
{{- end }}
{{- if $left }}
{{- $group := first (splitList "/" $resource) }}
{{- $key := printf "%s/%s" $group (join "," $left) }}
{{- $rule := default (dict "apiGroups" (list $group) "resources" list "verbs" $left) (index $rules $key) }}
{{- $_ := set $rules $key (set $rule "resources" (append $rule.resources (last (splitList "/" $resource)))) }}
{{- end }}
{{- end }}
{{- $list := list }}
{{- range $key := keys $rules | sortAlpha }}{{ $list = append $list (index $rules $key) }}{{ end }}
{{- toJson $list }}
{{- end }}
