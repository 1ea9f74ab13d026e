{{- /* What cluster-autoscaler has to know of a fleet that may have no Mac: its bounds,
and the labels and taints that the agent gives a Node. What a Mac has for Pods is in the
template's status, but for the number of Pods: without the annotation the autoscaler
takes 110. One more than there are guests, since it counts a kube-proxy that no Mac
runs. A Mac takes longer to come than any cloud's node: ordered, installed, rebooted. */ -}}
{{- define "macfleet.autoscaling" -}}
{{- $name := index . 0 -}}{{- $fleet := index . 1 -}}
{{- $profile := $fleet.profile | default dict -}}
{{- $labels := dict "kubernetes.io/os" "darwin" "kubernetes.io/arch" "arm64" "topology.kubernetes.io/zone" $fleet.zone "node.kubernetes.io/instance-type" $fleet.type "tuist.dev/fleet" $name -}}
{{- $pairs := list -}}
{{- range $key, $value := merge $labels ($profile.labels | default dict) -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- $taints := list "tuist.dev/macos=true:NoSchedule" -}}
{{- if hasKey $profile "taints" -}}
{{- $taints = list -}}
{{- range $profile.taints -}}
{{- $taints = append $taints (printf "%s%s:%s" .key (empty .value | ternary "" (printf "=%s" .value)) .effect) -}}
{{- end -}}
{{- end -}}
cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: {{ $fleet.autoscaling.min | default 0 | toString | quote }}
cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: {{ $fleet.autoscaling.max | toString | quote }}
cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime: 2h
capacity.cluster-autoscaler.kubernetes.io/maxPods: {{ $profile.maxVMs | default 2 | int | add 1 | toString | quote }}
capacity.cluster-autoscaler.kubernetes.io/labels: {{ join "," $pairs | quote }}
{{- with $taints }}
capacity.cluster-autoscaler.kubernetes.io/taints: {{ join "," . | quote }}
{{- end }}
{{- end -}}
