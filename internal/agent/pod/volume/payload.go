package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/pod/env"
	"github.com/macfleet/macfleet/internal/agent/pod/objects"
)

// Source gives what volumes are made of.
type Source interface {
	env.Source
	// Token of the Pod's service account, and when to ask for the next.
	Token(ctx context.Context, p *corev1.Pod, r objects.TokenRequest) (token string, refreshAt time.Time, err error)
}

// fileMode is the API's default of defaultMode.
const fileMode fs.FileMode = 0o644

// gathering collects the contents of one volume.
type gathering struct {
	pod   *corev1.Pod
	src   Source
	facts env.Facts
	files payload
	// room is how many bytes the Pod's files may still have.
	room *int64
	// refreshAt is when the first of its tokens is due; zero: there is none.
	refreshAt time.Time
}

// maxPayload is how many bytes the files may have that a Pod's volumes are made of from objects,
// each path counted: twice that, as the old ones go after the new ones came, for two Pods is
// the room that MaxMemory leaves on the RAM disk.
const maxPayload = 16 << 20

// perFile is what the rest of a file's last block takes at most, and the link to it.
const perFile = 8 << 10

// add is a file of the volume.
func (g *gathering) add(path string, data []byte, m fs.FileMode) error {
	takes := int64(len(data)) + perFile
	if takes > *g.room {
		return wrong("the files of the Pod's volumes have more than %d bytes together, with %d for each beside its own", maxPayload, perFile)
	}
	*g.room -= takes
	g.files[path] = file{data: data, mode: m}
	return nil
}

// gather reads what a volume is made of, and lowers the room by it.
func gather(ctx context.Context, p *corev1.Pod, v corev1.Volume, room *int64, src Source, f env.Facts) (payload, time.Time, error) {
	g := &gathering{pod: p, src: src, facts: f, files: payload{}, room: room}
	var err error
	switch {
	case v.ConfigMap != nil:
		err = g.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional, mode(v.ConfigMap.DefaultMode))
	case v.Secret != nil:
		err = g.secret(ctx, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional, mode(v.Secret.DefaultMode))
	case v.DownwardAPI != nil:
		err = g.downward(v.DownwardAPI.Items, mode(v.DownwardAPI.DefaultMode))
	case v.Projected != nil:
		for i, s := range v.Projected.Sources {
			if err = g.projection(ctx, s, mode(v.Projected.DefaultMode)); err != nil {
				err = fmt.Errorf("sources[%d]: %w", i, err)
				break
			}
		}
	}
	if err == nil {
		err = g.files.check()
	}
	return g.files, g.refreshAt, err
}

func (g *gathering) projection(ctx context.Context, s corev1.VolumeProjection, m fs.FileMode) error {
	switch {
	case s.ConfigMap != nil:
		return g.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional, m)
	case s.Secret != nil:
		return g.secret(ctx, s.Secret.Name, s.Secret.Items, s.Secret.Optional, m)
	case s.DownwardAPI != nil:
		return g.downward(s.DownwardAPI.Items, m)
	case s.ServiceAccountToken != nil:
		return g.token(ctx, s.ServiceAccountToken, m)
	}
	return errors.New("a source of this kind is not supported")
}

func (g *gathering) configMap(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool, m fs.FileMode) error {
	o, err := g.src.ConfigMap(ctx, g.pod.Namespace, name)
	if err != nil {
		return env.Unreadable("ConfigMap", g.pod.Namespace, name, ptr.Deref(optional, false), err)
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(o.Data)), maps.Keys(o.BinaryData))
	value := func(key string) ([]byte, bool) {
		if text, there := o.Data[key]; there {
			return []byte(text), true
		}
		data, there := o.BinaryData[key]
		return data, there
	}
	return g.keys(fmt.Sprintf("ConfigMap %s/%s", g.pod.Namespace, name), names, value, items, ptr.Deref(optional, false), m)
}

func (g *gathering) secret(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool, m fs.FileMode) error {
	o, err := g.src.Secret(ctx, g.pod.Namespace, name)
	if err != nil {
		return env.Unreadable("Secret", g.pod.Namespace, name, ptr.Deref(optional, false), err)
	}
	value := func(key string) ([]byte, bool) {
		data, there := o.Data[key]
		return data, there
	}
	return g.keys(fmt.Sprintf("Secret %s/%s", g.pod.Namespace, name), slices.Collect(maps.Keys(o.Data)), value, items, ptr.Deref(optional, false), m)
}

// keys takes all keys of an object, or those that items name.
func (g *gathering) keys(object string, names []string, value func(key string) ([]byte, bool), items []corev1.KeyToPath, optional bool, m fs.FileMode) error {
	if len(items) == 0 {
		for _, name := range names {
			items = append(items, corev1.KeyToPath{Key: name, Path: name})
		}
	}
	for _, item := range items {
		data, there := value(item.Key)
		if !there && optional {
			continue
		}
		if !there {
			return fmt.Errorf("%s has no key %q", object, item.Key)
		}
		if err := g.add(item.Path, data, modeOr(item.Mode, m)); err != nil {
			return err
		}
	}
	return nil
}

func (g *gathering) downward(items []corev1.DownwardAPIVolumeFile, m fs.FileMode) error {
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = env.Field(g.pod, item.FieldRef.FieldPath, g.facts)
		case item.ResourceFieldRef != nil:
			value, err = env.Resource(g.pod, "", item.ResourceFieldRef, g.facts)
		default:
			err = errors.New("it has neither fieldRef nor resourceFieldRef")
		}
		if err != nil {
			return fmt.Errorf("path %q: %w", item.Path, err)
		}
		if err := g.add(item.Path, []byte(value), modeOr(item.Mode, m)); err != nil {
			return err
		}
	}
	return nil
}

func (g *gathering) token(ctx context.Context, t *corev1.ServiceAccountTokenProjection, m fs.FileMode) error {
	r := objects.TokenRequest{Audience: t.Audience}
	if t.ExpirationSeconds != nil {
		r.Seconds = *t.ExpirationSeconds
	}
	value, refreshAt, err := g.src.Token(ctx, g.pod, r)
	if err != nil {
		return err
	}
	g.refreshAt = sooner(g.refreshAt, refreshAt)
	return g.add(t.Path, []byte(value), m)
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func mode(m *int32) fs.FileMode { return modeOr(m, fileMode) }

// modeOr keeps the permission bits; the others mean nothing on a share.
func modeOr(m *int32, otherwise fs.FileMode) fs.FileMode {
	if m == nil {
		return otherwise
	}
	return fs.FileMode(*m) & fs.ModePerm
}

// mounted are the volumes that some container mounts: only those are made.
func mounted(p *corev1.Pod) []corev1.Volume {
	var list []corev1.Volume
	for _, v := range p.Spec.Volumes {
		if slices.ContainsFunc(mounts(p), func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			list = append(list, v)
		}
	}
	return list
}

func mounts(p *corev1.Pod) []corev1.VolumeMount {
	var list []corev1.VolumeMount
	for _, c := range containers(p) {
		list = append(list, c.VolumeMounts...)
	}
	return list
}

func containers(p *corev1.Pod) []corev1.Container {
	return slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
}
