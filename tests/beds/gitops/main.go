// Command gitops tells what Flux and Argo CD make of objects by their own code: Flux by kstatus, Argo CD by a health
// script in the Lua that it bundles, with no library that it does not open for scripts.
//
// Its arguments are scripts. Of each object on standard input, one a line, it prints one line: kstatus' verdict, and
// that of each script in their order.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
)

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	scripts := make([]string, 0, len(os.Args))
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			fail(err)
		}
		scripts = append(scripts, string(text))
	}
	lines, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(lines.Bytes()); err != nil {
			fail(err)
		}
		verdicts := []verdict{byKstatus(object)}
		for _, script := range scripts {
			verdicts = append(verdicts, byScript(object, lines.Bytes(), script))
		}
		if err := answers.Encode(verdicts); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func byKstatus(object *unstructured.Unstructured) verdict {
	result, err := status.Compute(object)
	if err != nil {
		return verdict{"Unknown", err.Error()}
	}
	return verdict{result.Status.String(), result.Message}
}

// byScript asks no script about an object that is being deleted, and takes an error of one for Unknown, as Argo CD does.
func byScript(object *unstructured.Unstructured, line []byte, script string) verdict {
	if object.GetDeletionTimestamp() != nil {
		return verdict{"Progressing", "Pending deletion"}
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage,
		lua.BaseLibName: lua.OpenBase,
		lua.TabLibName:  lua.OpenTable,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	var plain any
	if err := json.Unmarshal(line, &plain); err != nil {
		fail(err)
	}
	state.SetGlobal("obj", luajson.DecodeValue(state, plain))
	if err := state.DoString(script); err != nil {
		return verdict{"Unknown", err.Error()}
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return verdict{"Unknown", "the script returns no table"}
	}
	return verdict{lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
