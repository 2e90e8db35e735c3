// The report on GPU memory: run it on a machine with a GPU. No RDMA device is needed.

#include <sys/statvfs.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "memory/byte_size.hpp"
#include "tests/gpu/bare_cuda.hpp"
#include "tests/gpu/report.hpp"

namespace {

using namespace gpurdma;
using namespace gpurdma::gpu_report;

constexpr int status_skipped = 77;  // as ctest is told

constexpr auto usage = R"(gpu_report [OPTION...]
Checks and measures GPU memory on this machine and writes a report to standard output.
  --gpu GPU       which: index, UUID or PCI address; 0 if not given
  --quick         a small share of everything, for compute-sanitizer
  --no-speed      without measurements
  --only-speed    measurements alone
  --folder PATH   for files of up to 7 GB, removed at the end; /dev/shm or /tmp if not given
Exit status: 0 all is well, 1 a check failed, 2 wrong use, 77 there is no GPU.
)";

struct options {
  std::string gpu = "0";
  std::string folder;
  bool quick = false;
  bool checks = true;
  bool speed = true;
  std::string child;  // what a process started by the report itself does
  std::string child_value;
};

bool parse(int argc, char** argv, options& to) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const auto take_value = [&](std::string& value) {
      if (i + 1 == argc) {
        return false;
      }
      value = argv[++i];
      return true;
    };
    if (name == "--quick") {
      to.quick = true;
    } else if (name == "--no-speed") {
      to.speed = false;
    } else if (name == "--only-speed") {
      to.checks = false;
    } else if (name == "--hold" || name == "--lose-context") {
      to.child = name;
      if (!take_value(to.child_value)) {
        return false;
      }
    } else if (!(name == "--gpu" && take_value(to.gpu)) && !(name == "--folder" && take_value(to.folder))) {
      return false;
    }
  }
  return true;
}

bool has_room(const std::string& folder, std::uint64_t bytes) {
  struct statvfs s {};
  return statvfs(folder.c_str(), &s) == 0 && std::uint64_t{s.f_bavail} * s.f_frsize >= bytes;
}

void describe(const context& c) {
  const auto& g = c.gpu->info();
  report::line("gpurdma: report on GPU memory");
  report::line(g.label() + ", " + g.uuid + ", " + memory::format_byte_size(g.bytes) + ", " +
               memory::format_byte_size(c.gpu->free_bytes()) + " free, NUMA node " +
               (g.numa_node ? std::to_string(*g.numa_node) : "unknown") + ", BAR1 " +
               memory::format_byte_size(g.bar1_bytes) + ", dma-buf " + (g.dma_buf_supported ? "yes" : "no"));
  report::line(std::to_string(std::thread::hardware_concurrency()) + " processors, files in " + c.folder.string());
}

int run(const options& o, const char* program) {
  if (const auto reason = memory::cuda_unavailable()) {
    report::line("skipped: needs a GPU; " + *reason);
    return status_skipped;
  }
  context c{.out = {}, .gpu = memory::find_gpu(o.gpu), .quick = o.quick, .program = program, .folder = o.folder};
  bare::use(c.gpu->info().index);
  if (o.child == "--hold") {
    return hold_memory(c.gpu, std::stoull(o.child_value));
  }
  if (o.child == "--lose-context") {
    return lose_context(c.gpu);
  }
  if (c.folder.empty()) {
    c.folder = has_room("/dev/shm", 9 * GiB) ? "/dev/shm" : "/tmp";
  }
  describe(c);
  c.out.check("the GPU answers", [&] {
    c.gpu->check();
    c.gpu->flush_inbound_writes();
    return memory::cuda_versions();
  });
  if (o.checks) {
    check_checksums(c);
    check_loads(c);
    check_errors(c);
  }
  if (o.speed) {
    measure(c);
  }
  if (o.checks) {
    check_pools(c);
  }
  return c.out.finish();
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  if (!parse(argc, argv, o)) {
    report::line(usage);
    return 2;
  }
  try {
    return run(o, "/proc/self/exe");
  } catch (const std::exception& e) {
    report::line(std::string{"FAILED: "} + e.what());
    return 1;
  }
}
