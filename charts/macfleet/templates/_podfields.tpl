{{/* What the agent takes of a Pod, in CEL. Admission of the agent, internal/agent/pod,
is the last word; one list of cases holds both to the same answers. What is refused is said
as "path (value): what to do"; path is an expression that ends in a dot. */}}

{{/* The value of a field f of an object, in brackets, where it is a single one. */}}
{{- define "macfleet.valueOf" -}}
(type({{ .of }}[f]) == string || type({{ .of }}[f]) == int || type({{ .of }}[f]) == bool ? ' (' + string({{ .of }}[f]) + ')' : '')
{{- end -}}

{{/* The fields of an object that are set and not accepted. A field that is false counts
as not set. The known ones come first and in order, so that the same Pod is refused in the
same words each time. */}}
{{- define "macfleet.unsupportedIn" -}}
(variables.known + {{ .of }}.filter(f, !(f in variables.known))).filter(f, f in {{ .of }} && {{ .of }}[f] != false && !(f in {{ .accepted | toJson }}))
.map(f, {{ .path }} + f + {{ include "macfleet.valueOf" . }} + ': {{ .remedy | default "leave it out" }}')
{{- end -}}

{{/* What is refused of the hooks of one container c that is a command. */}}
{{- define "macfleet.unsupportedHooks" -}}
['stopSignal'].filter(f, f in c.?lifecycle.orValue({})).map(f, {{ .path }} + 'lifecycle.' + f + {{ include "macfleet.valueOf" (dict "of" "c.lifecycle") }} + ': leave it out')
+ ['postStart', 'preStop'].filter(f, 'tcpSocket' in c.?lifecycle[?f].orValue({})).map(f, {{ .path }} + 'lifecycle.' + f + '.tcpSocket: use exec, httpGet or sleep instead')
{{- end -}}

{{/* What container c must have in common with the first one, as they share a VM. */}}
{{- define "macfleet.unlikeMain" -}}
(c.?image.orValue('') == variables.main.?image.orValue('') ? []
: [{{ .path }} + 'image (' + c.?image.orValue('') + '): make it ' + variables.main.?image.orValue('') + ', the image of the first container, as all share one VM'])
+ (c.?imagePullPolicy.orValue('') == '' || c.?imagePullPolicy.orValue('') == variables.main.?imagePullPolicy.orValue('') ? []
: [{{ .path }} + 'imagePullPolicy (' + c.imagePullPolicy + '): leave it out, or make it that of the first container, as all share one image'])
{{- end -}}

{{/* What is refused of one container c. */}}
{{- define "macfleet.unsupportedOfContainer" -}}
{{- $accepted := concat (list "name" "image" "imagePullPolicy" "command" "args" "env" "envFrom" "resources" "ports" "volumeMounts" "securityContext" "terminationMessagePath" "terminationMessagePolicy" "resizePolicy") .accepted -}}
{{- $security := "c.?securityContext.orValue({})" -}}
{{ include "macfleet.unsupportedIn" (dict "of" "c" "accepted" $accepted "path" .path) }}
+ {{ include "macfleet.unsupportedIn" (dict "of" $security "accepted" (list "seccompProfile" "runAsNonRoot" "capabilities" "procMount") "path" (printf "%s + 'securityContext.'" .path)) }}
+ ((c.?securityContext.?procMount.orValue('Default') == 'Default' ? [] : ['securityContext.procMount (' + c.securityContext.procMount + '): leave it out, or make it Default'])
+ (c.?securityContext.?capabilities.?add.orValue([]).size() == 0 ? [] : ['securityContext.capabilities.add (' + c.securityContext.capabilities.add.join(', ') + '): leave it out'])
+ (c.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault' ? []
: ['securityContext.seccompProfile (' + c.securityContext.seccompProfile.type + '): leave it out, or make its type RuntimeDefault'])
+ c.?ports.orValue([]).filter(p, 'hostPort' in p).map(p, 'ports[' + string(p.?containerPort.orValue(0)) + '].hostPort (' + string(p.hostPort) + '): leave it out')
+ c.?ports.orValue([]).filter(p, 'hostIP' in p).map(p, 'ports[' + string(p.?containerPort.orValue(0)) + '].hostIP (' + p.hostIP + '): leave it out')
+ c.?env.orValue([]).filter(e, e.?valueFrom.?fileKeyRef.hasValue()).map(e, 'env[' + e.?name.orValue('') + '].valueFrom.fileKeyRef: use configMapKeyRef or secretKeyRef instead')
+ (c.?resources.?claims.orValue([]).size() == 0 ? [] : ['resources.claims: leave it out'])
+ c.?resources.?limits.orValue({}).filter(r, !(r in variables.resources)).map(r, 'resources.limits[' + r + '] (' + string(c.resources.limits[r]) + '): leave it out, a Mac has none')
+ c.?resources.?requests.orValue({}).filter(r, !(r in variables.resources)).map(r, 'resources.requests[' + r + '] (' + string(c.resources.requests[r]) + '): leave it out, a Mac has none')
+ ['limits', 'requests'].filter(l, quantity(string(c.?resources[?l][?'macfleet.dev/macos-vm'].orValue('1'))).isGreaterThan(quantity('1')))
.map(l, 'resources.' + l + '[macfleet.dev/macos-vm] (' + string(c.resources[l]['macfleet.dev/macos-vm']) + '): make it 1, as a Pod is one VM')
+ c.?volumeMounts.orValue([]).filter(m, m.?mountPropagation.orValue('None') != 'None')
.map(m, 'volumeMounts[' + m.?name.orValue('') + '].mountPropagation (' + m.mountPropagation + '): leave it out, or make it None')
).map(f, {{ .path }} + f)
{{- end -}}
