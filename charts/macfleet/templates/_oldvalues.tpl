{{/* The first system's values, which would do nothing here: each is answered with
what it is now. The schema lets them through, so that the sentence is shown. */}}
{{- define "macfleet.checkOldValues" -}}
{{- $old := .Values.macosFleet | default dict -}}
{{- $now := dict
    "replicas" "fleets.<name>.replicas for Macs, manager.replicas for managers"
    "image" "manager.image.repository and manager.image.tag"
    "apiServerURL" "manager.apiServerURL"
    "adoptPoolPrefix" "pool.prefix"
    "orphanReclaim" "orphanReclaim.activeReclaim, without macosFleet"
    "machine" "fleets.<name>.zone, .type and .os; what a Mac reserves for itself is no value"
    "tartKubelet" "fleets.<name>.profile.maxVMs"
    "controlPlane" "no value: the address is read from kube-public/cluster-info, or manager.apiServerURL"
    "sshIngressAllowCIDRs" "fleets.<name>.profile.network.sshIngress.allow"
    "vmClusterEgress" "fleets.<name>.profile.network.guestEgress.allow"
    "scaleway" "vendorCredentialsSecret, the name of a Secret with SCW_ACCESS_KEY, SCW_SECRET_KEY and SCW_DEFAULT_PROJECT_ID"
    "enabled" "no value: a fleet is there when fleets names it" -}}
{{- range $key := without (keys $old | sortAlpha) "enabled" -}}
{{- fail (printf "macosFleet.%s is a value of the first system: it is now %s; docs/migrate.md has them all" $key (get $now $key | default "gone: macfleet has nothing of the kind")) -}}
{{- end -}}
{{- if hasKey .Values "macosFleet" -}}
{{- fail "macosFleet is a value of the first system: each fleet is now an entry of fleets, such as fleets.macos-fleet.zone; docs/migrate.md has them all" -}}
{{- end -}}
{{- range $key := list "runnersFleet" "buildersFleet" -}}
{{- if hasKey $.Values $key -}}
{{- fail (printf "%s is a value of the first system: it is now an entry of fleets, such as fleets.%s.zone, and its hostCount is .replicas; docs/migrate.md has them all" $key ($key | kebabcase)) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .Values "rackFleet" -}}
{{- fail "rackFleet is a value of the first system: macfleet has no Macs in racks, only the vendor's; leave it out" -}}
{{- end -}}
{{- if hasKey .Values "machine" -}}
{{- fail "machine is a value of the first system: machine.zone, .type and .os are now fleets.<name>.zone, .type and .os; docs/migrate.md has them all" -}}
{{- end -}}
{{- if hasKey .Values.capi "enabled" -}}
{{- fail "capi.enabled is a value of the first system: Cluster API is always used, leave it out" -}}
{{- end -}}
{{- if not (kindIs "string" .Values.capi.remoteKubeconfig) -}}
{{- fail "capi.remoteKubeconfig.externalSecrets is a value of the first system: write capi.remoteKubeconfig=externalSecret, and its item, field and refreshInterval below capi.externalSecret" -}}
{{- end -}}
{{- range $name, $fleet := .Values.fleets -}}
{{- range $key, $new := dict "machine" "zone, .type and .os" "hostCount" "replicas" "adoptPoolPrefix" "…: the prefix is pool.prefix, for all fleets" "guestCapacity" "profile.maxVMs" "maxPods" "profile.maxVMs" -}}
{{- if hasKey $fleet $key -}}
{{- fail (printf "fleets.%s.%s is a value of the first system: it is now fleets.%s.%s; docs/migrate.md has them all" $name $key $name $new) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Names that a person gives must be names. */}}
{{- define "macfleet.checkNames" -}}
{{- with .Values.fullnameOverride -}}
{{- if not (regexMatch "^[a-z0-9][a-z0-9-]{0,28}[a-z0-9]$" .) -}}
{{- fail (printf "fullnameOverride %q is no name: 2 to 30 lower-case letters, digits and dashes, a letter or digit at both ends; fleets and Machines add theirs" .) -}}
{{- end -}}
{{- end -}}
{{- with .Values.orphanReclaim.claimNamePrefix -}}
{{- if not (regexMatch "^[a-z0-9][a-z0-9-]{1,60}-$" .) -}}
{{- fail (printf "orphanReclaim.claimNamePrefix %q: 3 to 62 lower-case letters, digits and dashes, a letter or digit first and a dash at the end, such as tuist-tuist-" .) -}}
{{- end -}}
{{- end -}}
{{- $seen := dict -}}
{{- range $key, $fleet := .Values.fleets -}}
{{- $name := include "macfleet.fleetName" (list $ $key $fleet) -}}
{{- if hasKey $seen $name -}}
{{- fail (printf "fleets.%s and fleets.%s are both named %q: their Machines, Secrets and labels would be one fleet's; give one of them another name" (get $seen $name) $key $name) -}}
{{- end -}}
{{- $_ := set $seen $name $key -}}
{{- end -}}
{{- end -}}
