// Prints src/serve/ProtobufTables.ts: how the Kubernetes protobuf messages read in JSON, taken from the tags of the Go types.
package main

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var kinds = []struct {
	apiVersion string
	object     any
}{
	{"authentication.k8s.io/v1", authenticationv1.SelfSubjectReview{}},
	{"authentication.k8s.io/v1", authenticationv1.TokenRequest{}},
	{"authorization.k8s.io/v1", authorizationv1.LocalSubjectAccessReview{}},
	{"authorization.k8s.io/v1", authorizationv1.SelfSubjectAccessReview{}},
	{"authorization.k8s.io/v1", authorizationv1.SelfSubjectRulesReview{}},
	{"authorization.k8s.io/v1", authorizationv1.SubjectAccessReview{}},
	{"batch/v1", batchv1.Job{}},
	{"coordination.k8s.io/v1", coordinationv1.Lease{}},
	{"policy/v1", policyv1.Eviction{}},
	{"policy/v1", policyv1.PodDisruptionBudget{}},
	{"rbac.authorization.k8s.io/v1", rbacv1.ClusterRole{}},
	{"rbac.authorization.k8s.io/v1", rbacv1.ClusterRoleBinding{}},
	{"rbac.authorization.k8s.io/v1", rbacv1.Role{}},
	{"rbac.authorization.k8s.io/v1", rbacv1.RoleBinding{}},
	{"v1", corev1.Binding{}},
	{"v1", corev1.ConfigMap{}},
	{"v1", metav1.DeleteOptions{}},
	{"v1", corev1.Event{}},
	{"v1", corev1.Namespace{}},
	{"v1", corev1.Node{}},
	{"v1", corev1.Pod{}},
	{"v1", corev1.Secret{}},
	{"v1", corev1.Service{}},
	{"v1", corev1.ServiceAccount{}},
}

var scalars = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():        "time",
	reflect.TypeFor[metav1.MicroTime]():   "microtime",
	reflect.TypeFor[resource.Quantity]():  "quantity",
	reflect.TypeFor[intstr.IntOrString](): "intorstring",
	reflect.TypeFor[metav1.FieldsV1]():    "fields",
}

var messages = map[string][]string{}

func typeOf(t reflect.Type) string {
	if name, found := scalars[t]; found {
		return name
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "int"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if t.Name() != "" && t.Elem().Kind() == reflect.String {
			return "list"
		}
	case reflect.Struct:
		return message(t)
	}
	panic(fmt.Sprintf("no name for %v", t))
}

func message(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	name := strings.Join(path[len(path)-2:], ".") + "." + t.Name()
	if _, found := messages[name]; found {
		return name
	}
	messages[name] = nil
	type field struct {
		number int
		text   string
	}
	fields := []field{}
	for index := range t.NumField() {
		tag := strings.Split(t.Field(index).Tag.Get("protobuf"), ",")
		if len(tag) < 2 || tag[0] == "-" {
			continue
		}
		number, err := strconv.Atoi(tag[1])
		if err != nil {
			panic(err)
		}
		json := strings.Split(t.Field(index).Tag.Get("json"), ",")
		options := strings.Join(json[1:], ",")
		of := t.Field(index).Type
		prefix := ""
		switch {
		case json[0] == "" && t.Field(index).Anonymous:
			prefix = ""
		case of.Kind() == reflect.Pointer:
			of, prefix = of.Elem(), "*"
		case of.Kind() == reflect.Map:
			of, prefix = of.Elem(), "{}"
		case of.Kind() == reflect.Slice && typeOfSlice(of):
			of, prefix = of.Elem(), "[]"
		case !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero"):
			prefix = "*"
		}
		fields = append(fields, field{number, strings.TrimSpace(json[0] + " " + prefix + typeOf(of))})
	}
	sort.Slice(fields, func(a, b int) bool { return fields[a].number < fields[b].number })
	for _, each := range fields {
		messages[name] = append(messages[name], fmt.Sprintf("%d: %q", each.number, each.text))
	}
	return name
}

// A repeated field, as opposed to bytes and to a message that wraps a list.
func typeOfSlice(t reflect.Type) bool {
	return t.Elem().Kind() != reflect.Uint8 && !(t.Name() != "" && t.Elem().Kind() == reflect.String)
}

func main() {
	roots := []string{}
	for _, kind := range kinds {
		t := reflect.TypeOf(kind.object)
		roots = append(roots, fmt.Sprintf("  %q: %q", kind.apiVersion+"/"+t.Name(), message(t)))
	}
	names := []string{}
	for name := range messages {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println(`/**
 * The messages of the Kubernetes protobuf encoding as data, written by ` + "`go run ./tables`" + ` in test/clients/go from the tags of
 * k8s.io/api. A field is a JSON name and a type: ` + "`*`" + ` keeps a zero, ` + "`[]`" + ` repeats, ` + "`{}`" + ` is a map by strings, and a
 * field without a name lends its fields to the message around it.
 *
 * @module
 */

/** The message of each kind that is read, by ` + "`apiVersion/kind`" + `. */
export const kinds: Readonly<Record<string, string>> = {`)
	fmt.Println(strings.Join(roots, ",\n"))
	fmt.Println("}\n\n/** Fields of the messages by their numbers. */")
	fmt.Println("export const messages: Readonly<Record<string, Readonly<Record<number, string>>>> = {")
	for index, name := range names {
		comma := ","
		if index == len(names)-1 {
			comma = ""
		}
		if len(messages[name]) == 0 {
			fmt.Printf("  %q: {}%s\n", name, comma)
			continue
		}
		one := strings.Join(messages[name], ", ")
		if line := fmt.Sprintf("  %q: { %s }%s", name, one, comma); len(messages[name]) == 1 && len(line) <= 120 {
			fmt.Println(line)
			continue
		}
		fmt.Printf("  %q: {\n    %s\n  }%s\n", name, strings.Join(messages[name], ",\n    "), comma)
	}
	fmt.Println("}")
}
