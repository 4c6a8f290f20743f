#include "client/cli/holders.h"

#include <ostream>
#include <string>

#include "client/cli/table.h"

namespace tenure::cli {

void PrintHolders(std::ostream& out, const std::vector<client::Holder>& holders) {
  if (holders.empty()) return;
  Table table(
      {{"SESSION", Align::kRight}, {"PROGRAM"}, {"INSTANCE"}, {"LEASES", Align::kRight}, {"NOTE"}});
  for (const client::Holder& holder : holders) {
    table.AddRow({std::to_string(holder.session_id), holder.program, holder.instance,
                  std::to_string(holder.lease_count), holder.quarantined ? "quarantined" : ""});
  }
  table.Print(out);
}

}  // namespace tenure::cli
