#include "client/cli/fit_table.h"

#include <ostream>

#include "client/cli/format.h"
#include "client/cli/table.h"

namespace tenure::cli {

void PrintFits(std::ostream& out, const std::vector<client::DeviceFit>& fits) {
  Table table({{"DEVICE"},
               {"FITS"},
               {"NEEDED", Align::kRight},
               {"FREE", Align::kRight},
               {"LARGEST NOW", Align::kRight},
               {"AFTER RECLAIM", Align::kRight},
               {"CAPACITY", Align::kRight}});
  for (const client::DeviceFit& fit : fits) {
    table.AddRow({fit.device, std::string(client::FitVerdictName(fit.verdict)),
                  FormatBytes(fit.needed_bytes), FormatBytes(fit.free_bytes),
                  FormatBytes(fit.largest_now_bytes), FormatBytes(fit.largest_bytes),
                  FormatBytes(fit.capacity_bytes)});
  }
  table.Print(out);
  for (const client::DeviceFit& fit : fits) out << fit.device << ": " << fit.explanation << '\n';
}

}  // namespace tenure::cli
