{{/* What the daemon is configured with: `config`, and what the chart knows. */}}
{{- define "tenure.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- range $key, $value := dict "directory" "socketDirectory.path" "devices" "devices" "model_roots" "modelRoots" -}}
{{- if hasKey $config $key -}}
{{- fail (printf "config.%s is the chart's own: set %s instead" $key $value) -}}
{{- end -}}
{{- end -}}
{{- if hasKey (default dict $config.metrics) "address" -}}
{{- fail "config.metrics.address is the chart's own: set metrics.port instead" -}}
{{- end -}}
{{- $roots := list -}}
{{- range .Values.modelRoots -}}
{{- $roots = append $roots (dict "name" .name "path" (printf "/models/%s" .name)) -}}
{{- end -}}
{{- $own := dict "directory" .Values.socketDirectory.path "model_roots" $roots -}}
{{- $_ := set $own "metrics" (dict "address" (printf "0.0.0.0:%d" (int .Values.metrics.port))) -}}
{{- if .Values.devices -}}
{{- $_ := set $own "devices" .Values.devices -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config $own) -}}
{{- end -}}

{{/* Seconds that a pod has to end: what the daemon may take, and ten more. */}}
{{- define "tenure.gracePeriod" -}}
{{- $drain := include "tenure.seconds" (default "30s" .Values.config.drain_timeout) | int64 -}}
{{- $driver := include "tenure.seconds" (default "60s" .Values.config.driver_timeout) | int64 -}}
{{- $least := add $drain $driver -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- add $least 10 -}}
{{- else if le (int64 .Values.terminationGracePeriodSeconds) $least -}}
{{- fail (printf "terminationGracePeriodSeconds must be more than the %d s that drain_timeout and driver_timeout come to: the daemon would be killed while it drains" $least) -}}
{{- else -}}
{{- int64 .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{/* The resources: those given before those computed. */}}
{{- define "tenure.resources" -}}
{{- $host := include "tenure.hostBytes" . | fromYaml -}}
{{- $ordinary := add (int64 $host.ordinary) (include "tenure.bytes" .Values.memory.overhead | int64) -}}
{{- $amounts := dict "memory" (printf "%dMi" (div (add $ordinary 1048575) 1048576)) -}}
{{- if gt (int64 $host.huge) 0 -}}
{{- $_ := set $amounts "hugepages-2Mi" (printf "%dMi" (div (add (int64 $host.huge) 2097151) 2097152 | mul 2)) -}}
{{- end -}}
{{- $computed := dict "requests" $amounts "limits" (deepCopy $amounts) -}}
{{- $resources := mergeOverwrite $computed (deepCopy .Values.resources) -}}
{{- if eq .Values.gpuAccess "dra" -}}
{{- $_ := set $resources "claims" (list (dict "name" "gpus")) -}}
{{- end -}}
{{- range list "requests" "limits" -}}
{{- if hasKey (default dict (get $resources .)) "nvidia.com/gpu" -}}
{{- fail "resources: the daemon takes no nvidia.com/gpu, which would take the GPU from its clients; see gpuAccess" -}}
{{- end -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* The environment that gives the GPUs. */}}
{{- define "tenure.env" -}}
- name: TENURE_DIR
  value: {{ .Values.socketDirectory.path | quote }}
- name: NVIDIA_VISIBLE_DEVICES
  value: {{ ternary .Values.visibleDevices "void" (eq .Values.gpuAccess "visibleDevices") | quote }}
{{- if ne .Values.gpuAccess "none" }}
- name: NVIDIA_DRIVER_CAPABILITIES
  value: compute,utility
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
