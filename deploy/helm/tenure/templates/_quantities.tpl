{{/*
Sizes and durations as tenured writes them, turned into whole bytes and whole seconds. Each fails with words on
what tenured would refuse too.
*/}}

{{/* tenure.bytes "64MiB": in bytes. */}}
{{- define "tenure.bytes" -}}
{{- $text := toString . -}}
{{- if not (regexMatch "^[0-9]+(B|KiB|MiB|GiB|TiB)?$" $text) -}}
{{- fail (printf "a size is a whole number with B, KiB, MiB, GiB or TiB, not %q" $text) -}}
{{- end -}}
{{- $number := regexFind "^[0-9]+" $text | int64 -}}
{{- $factors := dict "" 1 "B" 1 "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 "TiB" 1099511627776 -}}
{{- mul $number (get $factors (regexFind "[A-Za-z]+$" $text) | int64) -}}
{{- end -}}

{{/* tenure.share (dict "share" "70%" "total" BYTES): in bytes; percents are rounded up to whole ones. */}}
{{- define "tenure.share" -}}
{{- $share := toString .share -}}
{{- $total := int64 .total -}}
{{- if hasSuffix "%" $share -}}
{{- $percent := trimSuffix "%" $share | float64 | ceil | int64 -}}
{{- div (mul $total $percent) 100 -}}
{{- else if hasPrefix "all-" $share -}}
{{- sub $total (include "tenure.bytes" (trimPrefix "all-" $share) | int64) -}}
{{- else -}}
{{- include "tenure.bytes" $share -}}
{{- end -}}
{{- end -}}

{{/* tenure.seconds "1m30s": in seconds, rounded up. */}}
{{- define "tenure.seconds" -}}
{{- $text := toString . -}}
{{- if not (regexMatch "^(0|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$" $text) -}}
{{- fail (printf "a duration is whole numbers with falling units, such as 1m30s, not %q" $text) -}}
{{- end -}}
{{- $sum := 0 -}}
{{- if regexMatch "ms$" $text -}}{{- $sum = 1 -}}{{- end -}}
{{- $text = regexReplaceAll "[0-9]+ms$" $text "" -}}
{{- range $unit, $factor := dict "d" 86400 "h" 3600 "m" 60 "s" 1 -}}
{{- $sum = add $sum (mul $factor (regexFind (printf "[0-9]+%s" $unit) $text | trimSuffix $unit | int64)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* The arenas of the node's own memory together, in bytes: "ordinary", or "huge" pages that must be. */}}
{{- define "tenure.hostBytes" -}}
{{- $sums := dict "ordinary" 0 "huge" 0 -}}
{{- range .Values.devices -}}
{{- if eq (default "host" .backend) "host" -}}
{{- $name := default "host:0" .name -}}
{{- if not .total -}}
{{- fail (printf "devices: %s must say its total, which the memory request is computed from" $name) -}}
{{- end -}}
{{- $total := include "tenure.bytes" .total | int64 -}}
{{- $weights := include "tenure.share" (dict "share" (default "70%" .weights) "total" $total) | int64 -}}
{{- $left := sub $total $weights -}}
{{- $runtime := min $left (include "tenure.share" (dict "share" "20%" "total" $total) | int64) -}}
{{- if .runtime -}}
{{- $runtime = include "tenure.share" (dict "share" .runtime "total" $total) | int64 -}}
{{- end -}}
{{- if gt (add $weights $runtime) $total -}}
{{- fail (printf "devices: weights and runtime of %s are more than its total" $name) -}}
{{- end -}}
{{- $kind := ternary "huge" "ordinary" (eq (default "off" .huge_pages) "require") -}}
{{- $_ := set $sums $kind (add (get $sums $kind) $weights $runtime) -}}
{{- end -}}
{{- end -}}
{{- toYaml $sums -}}
{{- end -}}
