// Which CPUs threads may use, where the system tells (Linux); elsewhere its scheduler is left alone.
#pragma once

#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace qkv {

// How many CPUs this thread may use.
int allowed_cpus();

// Keeps workers off the CPU of the thread that they work for.
//
// A worker that wakes on the caller's CPU runs only after the caller, too late for any job of some milliseconds. Linux
// does that in a virtual machine, where an idle CPU looks like one that the host has taken away, so workers may use all
// CPUs of the caller but the one that it is on.
class Placement {
 public:
  void place(std::vector<std::thread>& workers);
  // The next call places all workers anew.
  void forget() { *this = {}; }

#if defined(__linux__)
 private:
  cpu_set_t allowed_ = {};  // where all workers may run, if it was ever set
#endif
};

}  // namespace qkv
