#pragma once

#include <string>
#include <string_view>

#include "client/cli/memory_map.h"

namespace tenure::cli {

// The character that stands for memory in a state of the ledger: '#' for "leased".
char MapCharacter(std::string_view state);

// One arena as characters that each stand for the same number of bytes, on lines of at most
// `width`, with what one stands for above and the offsets before. A region of three characters and
// more has brackets around it, and its name where that has room.
std::string DrawArena(const MapArena& arena, size_t width);

// The ledger of one arena as a bar of `width` characters.
std::string LedgerBar(const client::ArenaLedger& ledger, size_t width);

// Every device and arena drawn, what the characters mean, and the regions and pools as tables: the
// `rows` largest of each.
std::string DrawMap(const MemoryMap& map, size_t width, size_t rows);

}  // namespace tenure::cli
