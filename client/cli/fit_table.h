#pragma once

#include <iosfwd>
#include <vector>

#include "tenure/client.h"

namespace tenure::cli {

// A line for each device, and what each has to say below.
void PrintFits(std::ostream& out, const std::vector<client::DeviceFit>& fits);

}  // namespace tenure::cli
