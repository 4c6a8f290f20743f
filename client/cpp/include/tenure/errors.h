#pragma once

// Why a call failed, for programs: every refusal of the daemon carries a reason out of a closed set
// and named values beside its message. The reasons of the daemon are those of google.rpc.ErrorInfo
// with domain `tenure`; the library's own are:
//
//   DAEMON_UNREACHABLE     nothing answers in the directory
//   DAEMON_GONE            the daemon closed the connection
//   HEARTBEAT_MISSED       no answer for so long that the lease may have ended
//   RELEASED               this lease or buffer was released or moved from
//   SCOPE_RELEASED         this scope was released or moved from
//   SLOT_CLOSED            this slot was closed or moved from
//   NOT_PLANNED            the plan has no such buffer: value `buffer`
//   ACQUIRED               this buffer of the slot was acquired, and not released since
//   NOT_ACQUIRED           this buffer of the slot was not acquired, or was released since
//   RECORDING              what the pool does is being recorded already
//   FORKED                 the client was made by the process that this one was forked from
//   PROTOCOL               the daemon said something that its protocol rules out
//   UNSUPPORTED_BACKEND    the memory is of a kind that this library cannot map
//   CUDA_UNAVAILABLE       the memory is on a CUDA device, and this process has no driver that can
//                          map it; the message says why
//   CUDA_DEVICE_NOT_FOUND  the memory is on a CUDA device that this process does not see: values
//                          `uuid` and `visible`
//   CUDA_FAILED            the CUDA driver refused something, for want of memory if the code is
//                          RESOURCE_EXHAUSTED; value `result`: "CUDA_ERROR_OUT_OF_MEMORY"

#include <absl/status/status.h>
#include <map>
#include <string>

#include "tenure/export.h"

namespace tenure::client {

// "CAPACITY", "MODEL_NOT_FOUND", ...; empty if the status has none. Thread-safe.
TENURE_CLIENT_API std::string ErrorReason(const absl::Status& status);

// The named values, {"free_bytes", "1048576"} for example; empty if there are none. Thread-safe.
TENURE_CLIENT_API std::map<std::string, std::string> ErrorValues(const absl::Status& status);

// True if the daemon could not be reached or is gone, as opposed to a refusal of its. Thread-safe.
TENURE_CLIENT_API bool IsUnreachable(const absl::Status& status);

}  // namespace tenure::client
