package nccl

/*
#include "abi.h"

static void cx_ResetDebugInit(const cx_nccl *f) { f->ResetDebugInit(); }
*/
import "C"

import (
	"errors"
	"os"

	"github.com/collectivex/collectivex/pkg/memlog"
)

// Logged calls run, and returns what a subsystem of the library logs meanwhile, at level INFO. The text is
// empty if the library cannot change its log, or if the user asked for its log. No other thread may be in a
// call of the library.
func (l *Library) Logged(subsystem string, run func() error) (string, error) {
	if !l.has["ncclResetDebugInit"] || os.Getenv("NCCL_DEBUG") != "" {
		return "", run()
	}
	log, err := memlog.New("cxrun-nccl-" + subsystem)
	if err != nil {
		return "", err
	}
	defer log.Close()
	restore, err := setAll(map[string]string{"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": subsystem, "NCCL_DEBUG_FILE": log.Path()})
	if err != nil {
		return "", errors.Join(err, restore())
	}
	C.cx_ResetDebugInit(l.table)
	err = run()
	text, unread := log.Text()
	err = errors.Join(err, unread, restore())
	C.cx_ResetDebugInit(l.table)
	return text, err
}

// setAll sets variables of this process. The function that it returns restores their values.
func setAll(variables map[string]string) (restore func() error, err error) {
	var undo []func() error
	restore = func() (err error) {
		for _, f := range undo {
			err = errors.Join(err, f())
		}
		return err
	}
	for name, value := range variables {
		if old, is := os.LookupEnv(name); is {
			undo = append(undo, func() error { return os.Setenv(name, old) })
		} else {
			undo = append(undo, func() error { return os.Unsetenv(name) })
		}
		if err := os.Setenv(name, value); err != nil {
			return restore, err
		}
	}
	return restore, nil
}
