package schedule

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// store is the memory of one API server: objects with resourceVersions,
// finalizers, a status apart from the spec, and the log that watches follow.
// Objects in it are never changed in place.
type store struct {
	scheme *runtime.Scheme
	clock  clock.PassiveClock
	name   string
	// check refuses a write as the schema would, and sees every write.
	check func(before, after client.Object) error

	version int64
	uids    int
	tables  map[string]map[client.ObjectKey]client.Object
	log     map[string][]change
}

// change is one line of a kind's log; a nil object was removed.
type change struct {
	key    client.ObjectKey
	object client.Object
}

func newStore(name string, scheme *runtime.Scheme, clock clock.PassiveClock) *store {
	return &store{
		scheme: scheme, clock: clock, name: name,
		check:  func(_, _ client.Object) error { return nil },
		tables: map[string]map[client.ObjectKey]client.Object{}, log: map[string][]change{},
	}
}

func (s *store) kind(object runtime.Object) string {
	gvk, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		panic(err) // a kind that the test's scheme lacks
	}
	return strings.TrimSuffix(gvk.Kind, "List")
}

func (s *store) resource(object client.Object) schema.GroupResource {
	return schema.GroupResource{Resource: s.kind(object)}
}

// find returns the stored object, or a NotFound error.
func (s *store) find(object client.Object) (client.Object, error) {
	key := client.ObjectKeyFromObject(object)
	if found := s.tables[s.kind(object)][key]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(s.resource(object), key.Name)
}

// all returns the objects of a kind in the order of their names.
func (s *store) all(kind string) []client.Object { return sorted(s.tables[kind]) }

func sorted(table map[client.ObjectKey]client.Object) []client.Object {
	keys := slices.SortedFunc(maps.Keys(table), func(a, b client.ObjectKey) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	objects := make([]client.Object, len(keys))
	for i, key := range keys {
		objects[i] = table[key]
	}
	return objects
}

func (s *store) create(object client.Object) error {
	if found, _ := s.find(object); found != nil {
		return apierrors.NewAlreadyExists(s.resource(object), object.GetName())
	}
	fresh := wire(object)
	s.uids++
	fresh.SetUID(types.UID(fmt.Sprintf("%s-%d", s.name, s.uids)))
	fresh.SetCreationTimestamp(metav1.NewTime(s.clock.Now().Truncate(1e9)))
	fresh.SetGeneration(1)
	fresh.SetDeletionTimestamp(nil)
	if hasStatus(fresh) && !builtin(s.kind(fresh)) {
		member(fresh, "Status").SetZero()
	}
	return s.put(nil, fresh, object)
}

// update replaces an object, or with statusOnly its status, under the version
// that it carries, if it carries one.
func (s *store) update(object client.Object, statusOnly bool) error {
	found, err := s.find(object)
	if err != nil {
		return err
	}
	if conflict := s.stale(found, object); conflict != nil {
		return conflict
	}
	fresh := wire(object)
	if statusOnly {
		next := found.DeepCopyObject().(client.Object)
		member(next, "Status").Set(member(fresh, "Status"))
		return s.put(found, next, object)
	}
	if hasStatus(fresh) && !builtin(s.kind(fresh)) {
		member(fresh, "Status").Set(member(found.DeepCopyObject(), "Status"))
	}
	fresh.SetUID(found.GetUID())
	fresh.SetCreationTimestamp(found.GetCreationTimestamp())
	fresh.SetDeletionTimestamp(found.GetDeletionTimestamp())
	fresh.SetGeneration(found.GetGeneration())
	return s.put(found, fresh, object)
}

func (s *store) stale(found, object client.Object) error {
	version, uid := object.GetResourceVersion(), object.GetUID()
	if (version != "" && version != found.GetResourceVersion()) || (uid != "" && uid != found.GetUID()) {
		return apierrors.NewConflict(s.resource(object), object.GetName(), fmt.Errorf("version %q is not the newest", version))
	}
	return nil
}

// patch applies a JSON merge patch.
func (s *store) patch(object client.Object, data []byte, statusOnly bool) error {
	found, err := s.find(object)
	if err != nil {
		return err
	}
	var current, changes any
	for _, part := range []struct {
		text []byte
		into *any
	}{{encode(found), &current}, {data, &changes}} {
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return err
		}
	}
	next := reflect.New(reflect.TypeOf(found).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(encode(merge(current, changes)), next); err != nil {
		return err
	}
	if err := s.update(next, statusOnly); err != nil {
		return err
	}
	return assign(object, next)
}

// merge is RFC 7396.
func merge(target, patch any) any {
	changes, is := patch.(map[string]any)
	if !is {
		return patch
	}
	result, is := target.(map[string]any)
	if !is {
		result = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(result, name)
			continue
		}
		result[name] = merge(result[name], value)
	}
	return result
}

// put stores the next state of an object and copies it back to its writer.
func (s *store) put(before, next, answer client.Object) error {
	if before != nil && same(before, next) {
		return assign(answer, before.DeepCopyObject().(client.Object))
	}
	if err := s.check(before, next); err != nil {
		return err
	}
	s.version++
	next.SetResourceVersion(strconv.FormatInt(s.version, 10))
	if before != nil && !equalMember(before, next, "Spec") {
		next.SetGeneration(before.GetGeneration() + 1)
	}
	kind, key := s.kind(next), client.ObjectKeyFromObject(next)
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		s.remove(kind, key, next)
	} else {
		if s.tables[kind] == nil {
			s.tables[kind] = map[client.ObjectKey]client.Object{}
		}
		s.tables[kind][key] = next
		s.log[kind] = append(s.log[kind], change{key, next})
	}
	return assign(answer, next.DeepCopyObject().(client.Object))
}

func (s *store) delete(object client.Object, preconditions *metav1.Preconditions) error {
	found, err := s.find(object)
	if err != nil {
		return err
	}
	if p := preconditions; p != nil {
		if (p.UID != nil && *p.UID != found.GetUID()) || (p.ResourceVersion != nil && *p.ResourceVersion != found.GetResourceVersion()) {
			return apierrors.NewConflict(s.resource(object), object.GetName(), fmt.Errorf("a precondition failed"))
		}
	}
	if found.GetDeletionTimestamp() != nil {
		return nil
	}
	next := found.DeepCopyObject().(client.Object)
	now := metav1.NewTime(s.clock.Now().Truncate(1e9))
	next.SetDeletionTimestamp(&now)
	return s.put(found, next, next.DeepCopyObject().(client.Object))
}

// remove takes an object out, and what it owned after it.
func (s *store) remove(kind string, key client.ObjectKey, object client.Object) {
	delete(s.tables[kind], key)
	s.log[kind] = append(s.log[kind], change{key: key})
	for _, kind := range slices.Sorted(maps.Keys(s.tables)) {
		for _, other := range s.all(kind) {
			owned := func(r metav1.OwnerReference) bool { return r.UID == object.GetUID() }
			if slices.ContainsFunc(other.GetOwnerReferences(), owned) {
				_ = s.delete(other, nil) // it may be gone already
			}
		}
	}
}

// wire is a copy of an object as the API keeps it: times lose what JSON drops.
func wire(object client.Object) client.Object {
	next := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(encode(object), next); err != nil {
		panic(err) // an object that cannot be read back
	}
	return next
}

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // API objects can be encoded
	}
	return text
}

// same compares all but the version.
func same(a, b client.Object) bool {
	version := b.GetResourceVersion()
	defer b.SetResourceVersion(version)
	b.SetResourceVersion(a.GetResourceVersion())
	return string(encode(a)) == string(encode(b))
}

func assign(to, from client.Object) error {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
	return nil
}

func member(object runtime.Object, name string) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName(name)
}

func hasStatus(object client.Object) bool { return member(object, "Status").IsValid() }

func equalMember(a, b client.Object, name string) bool {
	x, y := member(a, name), member(b, name)
	return !x.IsValid() || reflect.DeepEqual(x.Interface(), y.Interface())
}

// builtin kinds are made with their status, and tests write both at once.
func builtin(kind string) bool { return kind == "Node" || kind == "Pod" }
