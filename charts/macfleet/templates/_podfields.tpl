{{/* What the agent takes of a Pod, in CEL. Admission of the agent, internal/agent/pod,
is the last word; one list of cases holds both to the same answers. */}}

{{/* The names of the fields of an object that are set and not accepted. A field that
is false counts as not set. The known ones come first and in order, so that the same
Pod is refused in the same words each time. */}}
{{- define "macfleet.unsupportedIn" -}}
(variables.known + {{ .of }}.filter(f, !(f in variables.known))).filter(f, f in {{ .of }} && {{ .of }}[f] != false && !(f in {{ .accepted | toJson }}))
{{- end -}}

{{/* What is refused of the hooks of one container c that is a command. */}}
{{- define "macfleet.unsupportedHooks" -}}
['stopSignal'].filter(f, f in c.?lifecycle.orValue({})).map(f, '{{ .path }}lifecycle.' + f)
+ ['postStart', 'preStop'].filter(f, 'tcpSocket' in c.?lifecycle[?f].orValue({})).map(f, '{{ .path }}lifecycle.' + f + '.tcpSocket')
{{- end -}}

{{/* What container c must have in common with the first one, as they share a VM. */}}
{{- define "macfleet.unlikeMain" -}}
(c.?image.orValue('') == variables.main.?image.orValue('') ? [] : ['{{ .path }}image'])
+ (c.?imagePullPolicy.orValue('') == '' || c.?imagePullPolicy.orValue('') == variables.main.?imagePullPolicy.orValue('') ? [] : ['{{ .path }}imagePullPolicy'])
{{- end -}}

{{/* What is refused of one container c, as a list of paths. */}}
{{- define "macfleet.unsupportedOfContainer" -}}
{{- $accepted := concat (list "name" "image" "imagePullPolicy" "command" "args" "env" "envFrom" "resources" "ports" "volumeMounts" "securityContext" "terminationMessagePath" "terminationMessagePolicy" "resizePolicy") .accepted -}}
{{- $security := "c.?securityContext.orValue({})" -}}
({{ include "macfleet.unsupportedIn" (dict "of" "c" "accepted" $accepted) }}
+ {{ include "macfleet.unsupportedIn" (dict "of" $security "accepted" (list "seccompProfile" "runAsNonRoot" "capabilities" "procMount")) }}.map(f, 'securityContext.' + f)
+ (c.?securityContext.?procMount.orValue('Default') == 'Default' ? [] : ['securityContext.procMount'])
+ (c.?securityContext.?capabilities.?add.orValue([]).size() == 0 ? [] : ['securityContext.capabilities.add'])
+ (c.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault' ? [] : ['securityContext.seccompProfile'])
+ ['hostPort', 'hostIP'].filter(f, c.?ports.orValue([]).exists(p, f in p)).map(f, 'ports[].' + f)
+ (c.?env.orValue([]).exists(e, e.?valueFrom.?fileKeyRef.hasValue()) ? ['env[].valueFrom.fileKeyRef'] : [])
+ (c.?resources.?claims.orValue([]).size() == 0 ? [] : ['resources.claims'])
+ c.?resources.?limits.orValue({}).filter(r, !(r in variables.resources)).map(r, 'resources.limits[' + r + ']')
+ c.?resources.?requests.orValue({}).filter(r, !(r in variables.resources)).map(r, 'resources.requests[' + r + ']')
+ ['limits', 'requests'].filter(l, quantity(string(c.?resources[?l][?'macfleet.dev/macos-vm'].orValue('1'))).isGreaterThan(quantity('1'))).map(l, 'resources.' + l + '[macfleet.dev/macos-vm]')
+ (c.?volumeMounts.orValue([]).exists(m, m.?mountPropagation.orValue('None') != 'None') ? ['volumeMounts[].mountPropagation'] : [])
).map(f, '{{ .path }}' + f)
{{- end -}}
