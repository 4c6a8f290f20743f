#include "tests/gpu/trial/part.h"

#include <filesystem>

namespace tenure::trial {

std::span<const Part> Parts() {
  using std::chrono::seconds;
  static constexpr Part kParts[] = {
      {1, "contract", "Does the CUDA backend keep the contract of a Device here?", seconds(60),
       &RunContractSuite},
      {2, "exporter-death", "Does memory outlive the process that made it?", seconds(30),
       &RunExporterDeath},
      {3, "lone-fd", "Does an fd alone keep memory?", seconds(30), &RunLoneFd},
      {4, "fd-count", "How many fds do handles and exports take?", seconds(30), &RunFdCount},
      {5, "hand-over", "Does a captured graph compute with the next model's weights?", seconds(45),
       &RunHandOver},
      {6, "driver-times", "What do the driver's calls cost?", seconds(45), &RunDriverTimes},
      {7, "load-rate", "How fast do loads bring bytes to the device?", seconds(60), &RunLoadRate},
      {8, "model-times", "What do loads cost, by how they get their memory?", seconds(75),
       &RunModelTimes},
      {9, "give-back", "Does reclaimed memory go back to the device?", seconds(30), &RunGiveBack},
      {10, "client-death", "Who gets what a dying client's kernel reads?", seconds(60),
       &RunClientDeath},
      {10, "client-death-mps", "The same with the clients under MPS", seconds(60),
       &RunClientDeathUnderMps},
      {11, "neighbour", "What do other programs on the device notice?", seconds(60), &RunNeighbour},
      {12, "conformance", "Does the driver do as NVIDIA documents?", seconds(60), &RunConformance},
      {13, "writer-death", "Who gets what a dying client's kernel writes?", seconds(60),
       &RunWriterDeath},
  };
  return kParts;
}

std::span<const Role> Roles() {
  static constexpr Role kRoles[] = {{"exporter", &RunExporter},
                                    {"reader", &RunReader},
                                    {"writer", &RunWriter},
                                    {"ticker", &RunTicker}};
  return kRoles;
}

std::string Beside(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

}  // namespace tenure::trial
