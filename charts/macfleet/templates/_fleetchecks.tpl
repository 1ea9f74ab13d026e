{{- define "macfleet.checkFleet" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $fleet := index . 2 -}}
{{- $path := printf "fleets.%s" $name -}}
{{- if not (regexMatch "^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$" $name) -}}
{{- fail (printf "fleets: %q is no name for a fleet: up to 30 lower-case letters, digits and dashes, a letter or digit at both ends" $name) -}}
{{- end -}}
{{- $own := include "macfleet.fleetName" (list $root $name $fleet) -}}
{{- if not (regexMatch "^[a-z0-9]([a-z0-9-]{0,59}[a-z0-9])?$" $own) -}}
{{- fail (printf "%s.name %q is no name for a fleet's objects: up to 61 lower-case letters, digits and dashes, a letter or digit at both ends" $path $own) -}}
{{- end -}}
{{- if and $root.Values.orphanReclaim.activeReclaim (not (hasPrefix (include "macfleet.claimNamePrefix" $root) (printf "%s-" $own))) -}}
{{- fail (printf "%s: its Machines are named %s-…, which does not begin with the prefix of claimed names %q, so that its stranded Macs would stay so: name the fleet so, set orphanReclaim.claimNamePrefix, or leave orphanReclaim.activeReclaim off" $path $own (include "macfleet.claimNamePrefix" $root)) -}}
{{- end -}}
{{- if hasPrefix $root.Values.pool.prefix (printf "%s-" $own) -}}
{{- fail (printf "%s: its Machines' names start with pool.prefix %q, so that their Macs would look free: name the fleet otherwise" $path $root.Values.pool.prefix) -}}
{{- end -}}
{{- if not $fleet.zone -}}
{{- fail (printf "%s.zone is missing: name the zone of its Macs, such as fr-par-1" $path) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]{2}-[a-z]{3}-[0-9]+$" $fleet.zone) -}}
{{- fail (printf "%s.zone %q is no zone of the vendor's: write one such as fr-par-1" $path $fleet.zone) -}}
{{- end -}}
{{- if and $fleet.type (not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" $fleet.type)) -}}
{{- fail (printf "%s.type %q is no server type of the vendor's: write one such as M2-L, without blanks" $path $fleet.type) -}}
{{- end -}}
{{- if and $fleet.os (not (regexMatch "^[a-z]{1,32}$" (toString $fleet.os))) -}}
{{- fail (printf "%s.os %q: name a family of macOS such as tahoe or sequoia, not a version" $path (toString $fleet.os)) -}}
{{- end -}}
{{- if eq ($fleet.acquisition | default "Adopt") "Order" -}}
{{- if not $fleet.type -}}{{- fail (printf "%s orders servers: say in %s.type which, such as M2-L" $path $path) -}}{{- end -}}
{{- if $fleet.hostSelector -}}{{- fail (printf "%s orders servers: a hostSelector chooses among hosts that exist; leave it out" $path) -}}{{- end -}}
{{- end -}}
{{- if and (hasKey $fleet "maxOrdered") (ne ($fleet.acquisition | default "Adopt") "Order") -}}
{{- fail (printf "%s.maxOrdered: the fleet adopts its Macs from the pool and orders none; set %s.acquisition to Order, or leave it out" $path $path) -}}
{{- end -}}
{{- include "macfleet.checkAutoscaling" (list $path $fleet) -}}
{{- include "macfleet.checkSelector" (list (printf "%s.hostSelector" $path) ($fleet.hostSelector | default dict)) -}}
{{- include "macfleet.checkProfile" (list (printf "%s.profile" $path) ($fleet.profile | default dict)) -}}
{{- include "macfleet.checkHealth" (list (printf "%s.healthCheck" $path) ($fleet.healthCheck | default dict)) -}}
{{- end -}}

{{- define "macfleet.checkAutoscaling" -}}
{{- $path := index . 0 -}}{{- $fleet := index . 1 -}}
{{- with $fleet.autoscaling -}}
{{- if hasKey $fleet "replicas" -}}
{{- fail (printf "%s.replicas: the autoscaler says how many Macs the fleet has; leave it out, or leave %s.autoscaling out" $path $path) -}}
{{- end -}}
{{- if lt (int .max) (int .min) -}}
{{- fail (printf "%s.autoscaling: max %d is below min %d" $path (int .max) (int .min)) -}}
{{- end -}}
{{- if not $fleet.type -}}
{{- fail (printf "%s.autoscaling: the autoscaler has to know what a Mac has before there is one; say in %s.type which type of server they are, such as M2-L" $path $path) -}}
{{- end -}}
{{- if and (hasKey $fleet "maxOrdered") (lt (int $fleet.maxOrdered) (int .max)) -}}
{{- fail (printf "%s.maxOrdered %d is below %s.autoscaling.max %d: the autoscaler would wait for Macs that are never ordered" $path (int $fleet.maxOrdered) $path (int .max)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkSelector" -}}
{{- $path := index . 0 -}}{{- $selector := index . 1 -}}
{{- include "macfleet.checkLabels" (list (printf "%s.matchLabels" $path) ($selector.matchLabels | default dict)) -}}
{{- range $selector.matchExpressions -}}
{{- include "macfleet.checkLabels" (list (printf "%s.matchExpressions" $path) (dict .key "")) -}}
{{- if and (has .operator (list "In" "NotIn")) (not .values) -}}
{{- fail (printf "%s.matchExpressions: %s %s compares with nothing: give it values" $path .key .operator) -}}
{{- end -}}
{{- if and (has .operator (list "Exists" "DoesNotExist")) .values -}}
{{- fail (printf "%s.matchExpressions: %s %s looks at no value: leave its values out" $path .key .operator) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkProfile" -}}
{{- $path := index . 0 -}}{{- $profile := index . 1 -}}
{{- include "macfleet.checkLabels" (list (printf "%s.labels" $path) ($profile.labels | default dict)) -}}
{{- range $key, $value := $profile.labels -}}
{{- if has $key (list "kubernetes.io/os" "kubernetes.io/arch" "kubernetes.io/hostname" "topology.kubernetes.io/zone" "node.kubernetes.io/instance-type" "tuist.dev/fleet") -}}
{{- fail (printf "%s.labels: %s says what each Mac is: leave it out, no profile changes it" $path $key) -}}
{{- end -}}
{{- $kubelets := or (regexMatch "^([^/]*[.])?(node|kubelet)[.]kubernetes[.]io/" $key) (eq $key "topology.kubernetes.io/region") -}}
{{- if and (regexMatch "^([^/]*[.])?(kubernetes|k8s)[.]io/" $key) (not $kubelets) -}}
{{- fail (printf "%s.labels: the API server lets no node give itself the label %s; use a prefix of your own" $path $key) -}}
{{- end -}}
{{- end -}}
{{- include "macfleet.checkNetwork" (list (printf "%s.network" $path) ($profile.network | default dict)) -}}
{{- include "macfleet.checkKeys" (list (printf "%s.sshAccess" $path) ($profile.sshAccess | default dict)) -}}
{{- with dig "storage" "quota" "" $profile -}}
{{- include "macfleet.checkQuota" (list (printf "%s.storage.quota" $path) (kindIs "float64" . | ternary (printf "%.0f" .) (toString .))) -}}
{{- end -}}
{{- include "macfleet.checkImages" (list (printf "%s.images" $path) ($profile.images | default dict)) -}}
{{- range dig "pods" "hostPaths" list $profile -}}
{{- if or (not (regexMatch "^(/[^/:,[:cntrl:]]+)+$" .)) (regexMatch "/[.][.]?(/|$)" .) -}}
{{- fail (printf "%s.pods.hostPaths: %q is no path of a directory below /: write one such as /Users/Shared/cache, without . and .., colons and commas" $path .) -}}
{{- end -}}
{{- if regexMatch "(?i)^/(volumes|opt|([.][^/]*|private|var|etc|tmp|usr|bin|sbin|dev|cores|system|library|applications|opt/homebrew|volumes/(macfleet|macintosh hd))(/.*)?)$" . -}}
{{- fail (printf "%s.pods.hostPaths: %q is a directory of macOS or of the node's own files, as all of /private, /var, /etc, /tmp, /usr, /System, /Library, /Applications, /opt/homebrew and /Volumes/macfleet are: choose another, such as /Users/Shared/cache" $path .) -}}
{{- end -}}
{{- if and (regexMatch "(?i)^/users(/.*)?$" .) (not (regexMatch "(?i)^/users/shared(/.*)?$" .)) -}}
{{- fail (printf "%s.pods.hostPaths: %q is in the home of a user, or holds homes: choose /Users/Shared or a directory below it" $path .) -}}
{{- end -}}
{{- end -}}
{{- with dig "rollout" "soak" "" $profile -}}
{{- if ne . "0s" -}}{{- include "macfleet.checkTime" (list (printf "%s.rollout.soak" $path) .) -}}{{- end -}}
{{- end -}}
{{- $seen := list -}}
{{- range $profile.taints -}}
{{- include "macfleet.checkLabels" (list (printf "%s.taints" $path) (dict .key (.value | default ""))) -}}
{{- if or (hasPrefix "node.kubernetes.io/" .key) (hasPrefix "node-role.kubernetes.io/" .key) -}}
{{- fail (printf "%s.taints: %s is Kubernetes' own; use a prefix of your own" $path .key) -}}
{{- end -}}
{{- $identity := printf "%s:%s" .key .effect -}}
{{- if has $identity $seen -}}
{{- fail (printf "%s.taints: %s is there twice: a Node has one taint at most of a key and an effect" $path $identity) -}}
{{- end -}}
{{- $seen = append $seen $identity -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkImages" -}}
{{- $path := index . 0 -}}{{- $images := index . 1 -}}
{{- range $images.prePull -}}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9_][A-Za-z0-9._-]*)+(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?$" .) -}}
{{- fail (printf "%s.prePull: %q is no image of a registry: write one such as registry.example.com/macos/base:v1" $path .) -}}
{{- end -}}
{{- end -}}
{{- if ne (len ($images.prePull | default list)) (len ($images.prePull | default list | uniq)) -}}
{{- fail (printf "%s.prePull: an image is there twice" $path) -}}
{{- end -}}
{{- $high := int ($images.gcHighPercent | default 85) -}}{{- $low := int ($images.gcLowPercent | default 80) -}}
{{- if ge $low $high -}}
{{- fail (printf "%s: gcLowPercent %d must be below gcHighPercent %d" $path $low $high) -}}
{{- end -}}
{{- end -}}

{{/* The API server wants 40G, which is room for one guest and its image. */}}
{{- define "macfleet.checkQuota" -}}
{{- $path := index . 0 -}}{{- $size := index . 1 -}}
{{- $enough := false -}}
{{- if regexMatch "^[1-9][0-9]*([MGTPE]i?)?$" $size -}}
{{- $units := dict "" 1 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $unit := get $units (regexFind "[A-Za-z]*$" $size) -}}
{{- $enough = ge (mulf (regexFind "^[0-9]+" $size) $unit) 4e10 -}}
{{- end -}}
{{- if not $enough -}}
{{- fail (printf "%s %q: write a size of 40G or more, such as 300G" $path $size) -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkNetwork" -}}
{{- $path := index . 0 -}}{{- $network := index . 1 -}}
{{- with $network.subnet -}}
{{- if not (regexMatch "^(10|172|192)(\\.[0-9]{1,3}){3}/(1[6-9]|2[0-9])$" .) -}}
{{- fail (printf "%s.subnet %q: give a private IPv4 network of /16 to /29, such as 192.168.64.0/24" $path .) -}}
{{- end -}}
{{- end -}}
{{- range dig "guestEgress" "allow" list $network -}}
{{- include "macfleet.checkCIDR" (list (printf "%s.guestEgress.allow" $path) .cidr) -}}
{{- end -}}
{{- range dig "sshIngress" "allow" list $network -}}
{{- include "macfleet.checkCIDR" (list (printf "%s.sshIngress.allow" $path) .) -}}
{{- end -}}
{{- range dig "hostIngress" "allow" list $network -}}
{{- include "macfleet.checkCIDR" (list (printf "%s.hostIngress.allow" $path) .cidr) -}}
{{- end -}}
{{- end -}}

{{/* The manager's own check reads the keys; this one finds what is pasted wrong. */}}
{{- define "macfleet.checkKeys" -}}
{{- $path := index . 0 -}}
{{- range (index . 1).authorizedKeys -}}
{{- if not (regexMatch "^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh[.]com|sk-ecdsa-sha2-nistp256@openssh[.]com) [A-Za-z0-9+/]{32,}={0,3}( .*)?$" .) -}}
{{- fail (printf "%s.authorizedKeys: %q is no SSH public key: write its line, such as ssh-ed25519 AAAA… name, without options before it" $path (trunc 60 .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkCIDR" -}}
{{- $path := index . 0 -}}{{- $cidr := index . 1 -}}
{{- if not (regexMatch "^([0-9]{1,3}(\\.[0-9]{1,3}){3}/([12]?[0-9]|3[0-2])|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*/([0-9]{1,2}|1[01][0-9]|12[0-8]))$" $cidr) -}}
{{- fail (printf "%s: %q is no network: write one such as 10.1.2.0/24 or 2001:db8::/32" $path $cidr) -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkLabels" -}}
{{- $path := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if not (regexMatch "^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$" $key) -}}
{{- fail (printf "%s: %q is no label key: write name or domain/name, without blanks, such as team or example.com/team" $path $key) -}}
{{- end -}}
{{- if not (regexMatch "^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$" $value) -}}
{{- fail (printf "%s: %q of %s is no label value: up to 63 letters, digits, dashes, dots and underscores" $path $value $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkHealth" -}}
{{- $path := index . 0 -}}{{- $check := index . 1 -}}
{{- $startup := int (dig "nodeStartupSeconds" 7200 $check) -}}
{{- if and (gt $startup 0) (lt $startup 3600) -}}
{{- fail (printf "%s.nodeStartupSeconds %d: give 3600 or more, or 0 to wait for ever; a wipe takes 20 to 45 minutes, and Cluster API would delete the Machine meanwhile, whose Mac is wiped again" $path $startup) -}}
{{- end -}}
{{- $most := toString (dig "maxUnhealthy" 2 $check) -}}
{{- if not (regexMatch "^([1-9][0-9]*|(100|[1-9]?[0-9])%)$" $most) -}}
{{- if eq $most "0" -}}
{{- fail (printf "%s.maxUnhealthy 0: no Mac would ever be mended; give 1 or more, or switch %s.enabled off" $path $path) -}}
{{- end -}}
{{- fail (printf "%s.maxUnhealthy %q: give a number of Macs such as 2, or a share such as \"40%%\"" $path $most) -}}
{{- end -}}
{{- if eq $most "0%" -}}
{{- fail (printf "%s.maxUnhealthy 0%%: no Mac would ever be mended; give a larger share, or switch %s.enabled off" $path $path) -}}
{{- end -}}
{{- end -}}
