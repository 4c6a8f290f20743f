#pragma once

#include <iosfwd>
#include <vector>

#include "tenure/client.h"

namespace tenure::cli {

// A table of who holds something; nothing if nobody does.
void PrintHolders(std::ostream& out, const std::vector<client::Holder>& holders);

}  // namespace tenure::cli
