#pragma once

#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/base/units.h"
#include "tests/gpu/trial/findings.h"

namespace tenure::trial {

// What a part is run with.
struct Setting {
  Findings& findings;
  Bytes model;       // how large the models are that it loads
  std::string temp;  // an empty folder of its own
};

// One question to a machine with a GPU, asked in a process of its own.
struct Part {
  int number;
  const char* name;
  const char* question;
  std::chrono::seconds limit;
  void (*run)(const Setting&);
};

// In the order in which they are run.
std::span<const Part> Parts();

void RunContractSuite(const Setting& setting);
void RunExporterDeath(const Setting& setting);
void RunLoneFd(const Setting& setting);
void RunFdCount(const Setting& setting);
void RunHandOver(const Setting& setting);
void RunDriverTimes(const Setting& setting);
void RunLoadRate(const Setting& setting);
void RunModelTimes(const Setting& setting);
void RunGiveBack(const Setting& setting);
void RunClientDeath(const Setting& setting);
void RunClientDeathUnderMps(const Setting& setting);
void RunNeighbour(const Setting& setting);
void RunConformance(const Setting& setting);
void RunWriterDeath(const Setting& setting);

// Another process of this program's that a part starts.
struct Role {
  const char* name;
  // `socket` leads to the part; the exit status.
  int (*run)(int socket, std::span<const std::string> arguments);
};

std::span<const Role> Roles();

// Makes memory, exports it and sends its fd: BYTES SEED COUNT. See exporter.cc.
int RunExporter(int socket, std::span<const std::string> arguments);
// Leases a model and reads it in a long kernel: DIRECTORY MODEL SECONDS. See reader.cc.
int RunReader(int socket, std::span<const std::string> arguments);
// Takes a buffer and writes it in a long kernel: DIRECTORY BYTES SECONDS. See writer.cc.
int RunWriter(int socket, std::span<const std::string> arguments);
// Runs small kernels one after another and logs how long each took: LOG. See ticker.cc.
int RunTicker(int socket, std::span<const std::string> arguments);

// The program `name` that lies beside this one.
std::string Beside(const std::string& name);

}  // namespace tenure::trial
