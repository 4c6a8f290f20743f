#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tenure {

// A page token that says where the next page begins: opaque to clients, and only what was made here
// reads back. `list` names the list that it belongs to.
std::string MakePageToken(std::string_view list, const std::vector<std::string>& position);

// The position. INVALID_REQUEST for a token of another list, or one that was not made here.
StatusOr<std::vector<std::string>> ReadPageToken(std::string_view list, const std::string& token);

// What `text` says in decimal digits, as written by std::to_string; INVALID_REQUEST for anything
// else.
StatusOr<uint64_t> ReadPosition(const std::string& text);

}  // namespace tenure
