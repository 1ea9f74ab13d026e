{{/* What makes an object one of a hook: its kind, and its place among the hook's. */}}
{{- define "macfleet.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* A Job that runs the manager's image once, and the ServiceAccount that it has: a
dict of root, name, hook, args, and deadline in seconds. Whoever includes it makes the
ClusterRole of that name. */}}
{{- define "macfleet.hookJob" -}}
{{- $root := .root -}}
{{- $labels := include "macfleet.labels" $root -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "macfleet.hook" (list .hook "-5") | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "macfleet.hook" (list .hook "-5") | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .name }}}
subjects:
  - {kind: ServiceAccount, name: {{ .name }}, namespace: {{ $root.Release.Namespace }}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "macfleet.hook" (list .hook "0") | nindent 4 }}
spec:
  backoffLimit: {{ .retries }}
  activeDeadlineSeconds: {{ .deadline }}
  template:
    metadata:
      labels: {app.kubernetes.io/name: macfleet-{{ .hook }}, app.kubernetes.io/instance: {{ $root.Release.Name }}}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ .name }}
      {{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "priorityClassName" }}
      {{- with index $root.Values.manager $field }}
      {{ $field }}: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: manager
          image: {{ include "macfleet.image" $root }}
          imagePullPolicy: {{ $root.Values.manager.image.pullPolicy }}
          args: {{- toYaml .args | nindent 12 }}
          # Shown by kubectl describe, and by helm where it tells of a failed hook.
          terminationMessagePolicy: FallbackToLogsOnError
          resources:
            requests: {cpu: 50m, memory: 64Mi}
            limits: {memory: 256Mi}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
{{- end -}}
