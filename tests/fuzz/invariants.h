#pragma once

// What must hold for anything that the checkpoint reader accepts or refuses, checked from outside
// and the simple way: headers are read into a tree, names into a set. Each ends the process if it
// does not hold.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/safetensors.h"

namespace tenure {

// A refusal has a reason that says what is wrong with a file, and a message that is short, has no
// control characters and names the file, as far as `named` is a part of its path.
void CheckRefusal(const Status& status, std::string_view named);

// The entries are those that `header` has: every name once, with its dtype, shape and offsets. They
// follow one another without hole or overlap from `begin` to `end`.
void CheckEntries(std::string_view header, const std::vector<HeaderEntry>& entries, Bytes begin,
                  Bytes end);

// Each tensor lies in the payload of its shard and has the size of its dtype and shape; no two have
// one name, and no two that have bytes share any. They have a Layout, in which none overlaps
// another, unless they need more than any memory.
void CheckTensors(const OpenCheckpoint& checkpoint, const std::vector<TensorSource>& tensors);

// The tensors are those of the weight map of `index`, each from the shard that it names.
void CheckWeightMap(std::string_view index, const std::vector<TensorSource>& tensors);

}  // namespace tenure
